import type { IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify';
import { CallerError } from '../errors.ts';
import type { Caller } from '../service/authenticator.ts';
import {
  type Admission,
  type ClientOperation,
  isAllowed,
} from '../service/limits/client-limits.ts';
import type { ServerContext } from './context.ts';
import { MAX_HEADERS } from './listener.ts';
import { addRateLimit } from './rate-limit-headers.ts';
import { LIMIT_CODES } from './schema.ts';

const MEDIA_TYPE = /^application\/json *(?:; *[\w-]+=(?:[\w.-]+|"[\w.-]+") *)*$/i;
const CHARSET = /; *charset="?([\w.-]+)/gi;
/** The characters of RFC 3986 section 3.2.2 and of a port, in any order. */
const HOST = /^[\w.~!$&'()*+,;=%:[\]-]*$/;
/** The most that Node reads of a body before anybody asks for it. */
const MAX_EARLY_BYTES = 65_536;

/** Runs before routing. Refuses requests that Node accepts but HTTP forbids. */
export function protocolGuard(request: FastifyRequest): void {
  const { rawHeaders, headers } = request.raw;
  if (!isWellFormed(request.raw)) throw new CallerError('bad_request');
  if (rawHeaders.length >= 2 * MAX_HEADERS) throw new CallerError('headers_too_large');
  const { expect } = headers;
  if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
    throw new CallerError('expectation_failed');
  }
}

/**
 * RFC 9112 sections 3.2 and 6.1: exactly one Host in HTTP/1.1, at most one in 1.0, and no transfer
 * coding except chunked. A request without a version is HTTP/0.9.
 */
export function isWellFormed({ rawHeaders, headers, httpVersion }: IncomingMessage): boolean {
  const hosts = countOf(rawHeaders, 'host');
  const coding = headers['transfer-encoding'];
  return (
    (httpVersion === '1.1' ? hosts === 1 : httpVersion === '1.0' && hosts <= 1) &&
    HOST.test(headers.host ?? '') &&
    (coding === undefined || coding.toLowerCase() === 'chunked')
  );
}

/**
 * Checks before the body is read, in this order: API key, permission, limits, content type, size.
 */
export function admission(context: ServerContext, operation: ClientOperation) {
  return (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void => {
    try {
      if (context.state.phase === 'closing') throw new CallerError('overloaded', '', 1);
      request.operation = operation;
      // Node keeps the first of two Authorization headers, but a proxy may have checked the other.
      if (countOf(request.raw.rawHeaders, 'authorization') > 1)
        throw new CallerError('unauthorized');
      const caller = context.authenticator.authenticate(request.headers.authorization);
      if (!(caller instanceof Promise)) admit(context, request, reply, caller, done);
      else
        holdUnknown(context, request, caller)
          .then((late) => admit(context, request, reply, late, done))
          .catch(done);
    } catch (error) {
      done(error as Error);
    }
  };
}

function admit(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  caller: Caller,
  done: HookHandlerDoneFunction,
): void {
  request.caller = caller;
  request.held = context.budget.open(caller.client.client_id);
  const operation = request.operation!;
  if (!isAllowed(caller.client, operation)) throw new CallerError('forbidden');
  const admission = context.limits.admit(caller.client, operation);
  const next = (admission: Admission): void => {
    addRateLimit(reply, admission);
    if (admission.isRefused) throw overLimit(context, admission);
    checkMedia(request, context.bodyLimit);
    checkRoom(context, request);
    if (request.headers.expect !== undefined) reply.raw.writeContinue();
    done();
  };
  if (admission instanceof Promise) admission.then(next).catch(done);
  else next(admission);
}

/** Holds the bytes that arrive while the API key is looked up, in the share of unknown callers. */
async function holdUnknown(
  { budget }: ServerContext,
  request: FastifyRequest,
  caller: Promise<Caller>,
): Promise<Caller> {
  const held = budget.open(undefined);
  const bytes = Math.min(
    Number(request.headers['content-length'] ?? MAX_EARLY_BYTES),
    MAX_EARLY_BYTES,
  );
  if (!budget.grow(held, bytes)) {
    // Nobody waits for this promise. The look-up continues for other requests with the same key.
    caller.catch(() => {});
    throw new CallerError('overloaded', '', 1);
  }
  return caller.finally(() => budget.settle(held, 0));
}

/** Refuses a request before its body is read. Holds nothing yet, because a body may never come. */
function checkRoom({ budget }: ServerContext, request: FastifyRequest): void {
  const declared = Number(request.headers['content-length'] ?? 0);
  if (!budget.hasRoom(request.held!, declared)) throw new CallerError('overloaded', '', 1);
}

/** The error for a request that a limit refuses. */
export function overLimit(context: ServerContext, { state }: Admission): CallerError {
  context.metrics.rejection(state!.limit);
  return new CallerError(LIMIT_CODES[context.interfaceVersion], '', state!.windowS);
}

function checkMedia(request: FastifyRequest, bodyLimit: number): void {
  const {
    'content-type': type,
    'content-encoding': encoding,
    'content-length': length,
  } = request.headers;
  if (type !== 'application/json' && !isJson(type)) throw new CallerError('unsupported_media_type');
  // Node keeps the first of two, but a proxy may have used the other.
  if (countOf(request.raw.rawHeaders, 'content-type') > 1)
    throw new CallerError('unsupported_media_type');
  if (encoding !== undefined && encoding !== 'identity')
    throw new CallerError('unsupported_media_type');
  if (Number(length ?? 0) > bodyLimit) throw new CallerError('payload_too_large');
}

function isJson(type: string | undefined): boolean {
  if (type === undefined || !MEDIA_TYPE.test(type)) return false;
  return [...type.matchAll(CHARSET)].every(([, charset]) => charset!.toLowerCase() === 'utf-8');
}

function countOf(rawHeaders: readonly string[], name: string): number {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const header = rawHeaders[i]!;
    if (header.length === name.length && header.toLowerCase() === name) count++;
  }
  return count;
}
