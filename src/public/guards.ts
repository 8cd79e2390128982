import type { IncomingMessage } from 'node:http';
import type { Caller } from '../access/authenticator.ts';
import type { AuditEvent } from '../audit/audit-log.ts';
import { CallerError, overloaded } from '../errors.ts';
import { afterwards } from '../limits/buckets.ts';
import {
  type Admission,
  type ClientOperation,
  isAllowed,
  type Quota,
} from '../limits/client-limits.ts';
import type { PolicyRules } from '../policy/rules.ts';
import type { Exchange } from './exchange.ts';
import { LIMIT_CODES, LIMIT_NAMES, MESSAGES } from './schema.ts';
import { MAX_HEADERS } from './transport/connections.ts';
import { earlyBytes } from './transport/pipelining.ts';

/** RFC 9110 sections 5.6.2 to 5.6.6: a semicolon needs no parameter after it. */
const PARAMETER = /([\w!#$%&'*+.^`|~-]+)=([\w!#$%&'*+.^`|~-]+|"(?:[^"\\]|\\.)*")/;
const MEDIA_TYPE = new RegExp(`^application/json *(?:; *(?:${PARAMETER.source} *)?)*$`, 'i');
const PARAMETERS = new RegExp(PARAMETER, 'g');
const UTF_8 = /^"?utf-?8"?$/i;
/** The characters of RFC 3986 section 3.2.2 and of a port, in any order. */
const HOST = /^[\w.~!$&'()*+,;=%:[\]-]*$/;
/** A client has at least one of them. */
const OPERATIONS = ['tokenize', 'detokenize', 'lookup'] as const;

/** Refuses requests that Node accepts but HTTP forbids. */
export function checkProtocol(request: IncomingMessage): void {
  const { rawHeaders, headers } = request;
  if (!isWellFormed(request)) throw new CallerError('bad_request');
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
 * Resolves at once when neither the database nor Redis is asked.
 */
export function admit(exchange: Exchange, operation: ClientOperation): Caller | Promise<Caller> {
  return afterwards(authenticate(exchange, operation), (caller) => {
    takeCaller(exchange, caller);
    return afterwards(admitOperation(exchange, operation), () => {
      checkBody(exchange);
      return caller;
    });
  });
}

/** Admits a request whose body says what it does. `admitOperation` follows when that is read. */
export async function admitBody(exchange: Exchange, event: AuditEvent): Promise<void> {
  takeCaller(exchange, await authenticate(exchange, event));
  checkBody(exchange);
}

/** @throws CallerError forbidden, or when a limit refuses */
export function admitOperation(
  exchange: Exchange,
  operation: ClientOperation,
): void | Promise<void> {
  const { client } = exchange.caller!;
  exchange.event = operation;
  exchange.operation = operation;
  if (!isAllowed(client, operation))
    throw new CallerError('forbidden', MESSAGES.forbidden(operation));
  return afterwards(exchange.context.limits.admit(client, operation), (admission) =>
    checkLimits(exchange, admission),
  );
}

/** Admits a request without a body, of a client with any permission, and counts it. */
export async function admitReader(exchange: Exchange): Promise<void> {
  const { context } = exchange;
  const { client } = takeCaller(exchange, await authenticate(exchange, 'policy'));
  const operation = OPERATIONS.find((one) => isAllowed(client, one))!;
  checkLimits(exchange, await context.limits.admit(client, operation));
}

function takeCaller(exchange: Exchange, caller: Caller): Caller {
  exchange.caller = caller;
  exchange.reservation = exchange.context.budget.open(caller.client.client_id);
  return caller;
}

/** @throws CallerError when a limit refuses */
export function checkLimits(exchange: Exchange, admission: Admission): void {
  const { context } = exchange;
  addRateLimit(exchange, admission);
  if (!admission.isRefused) return;
  const { limit, windowS } = admission.state!;
  context.metrics.rejection(limit);
  throw new CallerError(LIMIT_CODES[context.interfaceVersion], '', windowS);
}

function authenticate(exchange: Exchange, event: AuditEvent): Caller | Promise<Caller> {
  const { context, request } = exchange;
  if (context.state.phase === 'closing') throw overloaded();
  exchange.event = event;
  const { headers, rawHeaders } = request;
  // Node keeps the first of two Authorization headers, but a proxy may have checked the other.
  if (countOf(rawHeaders, 'authorization') > 1)
    throw new CallerError('unauthorized', 'more than one Authorization header');
  const caller = context.authenticator.authenticate(headers.authorization);
  return caller instanceof Promise ? reserveUnknown(exchange, caller) : caller;
}

/** Refuses a request before its body is read. Holds nothing yet, because a body may never come. */
function checkBody({ context, request, response, reservation }: Exchange): void {
  checkMedia(request, context.bodyLimit);
  const { headers, httpVersion } = request;
  const declared = Number(headers['content-length'] ?? 0);
  if (!context.budget.hasRoom(reservation!, declared)) throw overloaded();
  // RFC 9110 section 10.1.1: a caller of HTTP/1.0 would take it for the answer.
  if (headers.expect !== undefined && httpVersion !== '1.0') response.writeContinue();
}

/** Reserves what arrives while the API key is looked up, in the share of unknown callers. */
async function reserveUnknown(
  { context: { budget }, request }: Exchange,
  caller: Promise<Caller>,
): Promise<Caller> {
  const held = budget.open(undefined);
  if (!budget.reserve(held, earlyBytes(request))) {
    // Nobody waits for this promise. The look-up continues for other requests with the same key.
    caller.catch(() => {});
    throw overloaded();
  }
  return caller.finally(() => budget.shrinkTo(held, 0));
}

/**
 * With If-Match (RFC 9110 section 13.1.1), a request is only served by the policy that the caller
 * means: a newer one could leave its values in clear, or make other tokens.
 * @throws CallerError precondition_failed
 */
export function checkPrecondition({ request }: Exchange, { policy }: PolicyRules): void {
  const wanted = request.headers['if-match'];
  if (wanted === undefined) return;
  const tags = wanted.split(',').map((one) => one.trim());
  if (policy.version === 0 || !(tags.includes(policy.tag) || tags.includes('*')))
    throw new CallerError('precondition_failed');
}

function checkMedia({ headers, rawHeaders }: IncomingMessage, bodyLimit: number): void {
  const { 'content-type': type, 'content-encoding': encoding, 'content-length': length } = headers;
  if (!isJson(type)) throw new CallerError('unsupported_media_type');
  // Node keeps the first of two, but a proxy may have used the other.
  if (countOf(rawHeaders, 'content-type') > 1) throw new CallerError('unsupported_media_type');
  if (encoding !== undefined && encoding !== 'identity')
    throw new CallerError('unsupported_media_type');
  if (Number(length) > bodyLimit)
    throw new CallerError('payload_too_large', MESSAGES.payload_too_large(bodyLimit));
}

function isJson(type: string | undefined): boolean {
  // As nearly everybody sends it.
  if (type === 'application/json') return true;
  if (type === undefined || !MEDIA_TYPE.test(type)) return false;
  return [...type.matchAll(PARAMETERS)].every(
    ([, name, value]) => name!.toLowerCase() !== 'charset' || UTF_8.test(value!),
  );
}

function countOf(rawHeaders: readonly string[], name: string): number {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const header = rawHeaders[i]!;
    if (header.length === name.length && header.toLowerCase() === name) count++;
  }
  return count;
}

const policies = new WeakMap<readonly Quota[], string>();

/**
 * Adds headers with the limits, and with the state of the limit that refuses, else of the request
 * limit (draft-ietf-httpapi-ratelimit-headers-11).
 * They never tell how many unknown tokens are left: the number would tell a forgotten token, which
 * costs nothing, from an unknown one.
 */
function addRateLimit({ headers }: Exchange, { quotas, state }: Admission): void {
  if (quotas.length === 0) return;
  let policy = policies.get(quotas);
  if (policy === undefined) {
    policy = quotas
      .map(({ limit, size, windowS }) => `${LIMIT_NAMES[limit]};q=${size};w=${windowS}`)
      .join(', ');
    policies.set(quotas, policy);
  }
  headers['RateLimit-Policy'] = policy;
  if (state === undefined) return;
  headers.RateLimit = `${LIMIT_NAMES[state.limit]};r=${state.left};t=${state.windowS}`;
}
