import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline, type Readable } from 'node:stream';
import { STRINGS_HEADER } from '#openapi';
import { CALLER_ERRORS, CallerError, InternalError, type InternalReason } from '../errors.ts';
import { failureFields } from '../log.ts';
import type { KindCounts } from '../metrics.ts';
import type { Seen } from '../service/audit/audit-log.ts';
import type { Caller } from '../service/authenticator.ts';
import type { Holder } from '../service/limits/byte-budget.ts';
import type { ClientOperation } from '../service/limits/client-limits.ts';
import { endsConnection } from './connections.ts';
import type { ServerContext } from './context.ts';
import { type Correlation, correlationOf } from './correlation.ts';
import { routeOf } from './routes.ts';
import { endSpan, type RequestSpan } from './tracing.ts';

/** Memory for each value of a request besides its bytes, on the way to the vault and back. */
const FIELD_BYTES = 256;

/** A request and the facts that its answer, log line and audit line need. */
export class Exchange {
  readonly id = randomUUID();
  readonly startedAtMs = performance.now();
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** undefined: this listener does not have the path. */
  readonly route: string | undefined;
  correlation: Correlation;
  /** undefined: not traced. */
  span: RequestSpan | undefined;
  /** Headers of the answer besides those of every answer. */
  readonly headers: Record<string, string> = {};
  /** The connection closes after the answer. */
  isLast = false;
  /** The event for the audit log; undefined until the API key is checked. */
  operation: ClientOperation | undefined;
  /** null until the API key is accepted. */
  caller: Caller | null = null;
  /** The request's part of the budget of bytes; undefined until the API key is accepted. */
  held: Holder | undefined;
  /** A time of monotonicMs; undefined: the vault is asked at once, and has its usual time. */
  deadlineMs: number | undefined;
  /** Number of distinct tokens in the request that the vault has never issued. */
  unknownTokens = 0;
  /** How many values of each kind the caller sees, by right; undefined: without a policy. */
  seen: Seen | undefined;

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.request = request;
    this.response = response;
    this.route = routeOf(request.url!);
    this.correlation = correlationOf(request.headers);
  }

  /**
   * Makes the request hold more bytes of the budget.
   * @throws CallerError overloaded
   */
  hold({ budget }: ServerContext, bytes: number): void {
    if (!budget.grow(this.held!, bytes)) throw new CallerError('overloaded', '', 1);
  }

  /** @throws CallerError overloaded */
  holdFields(context: ServerContext, fields: number): void {
    this.hold(context, fields * FIELD_BYTES);
  }

  /**
   * Releases the bytes after the answer. Bytes of the answer that the system has not taken stay
   * held until they are sent or the connection ends.
   */
  letGo({ budget }: ServerContext): void {
    const { held, response } = this;
    if (held === undefined) return;
    const unsent = response.writableLength;
    const isStream = !response.writableEnded;
    const { socket } = this.request;
    const isGone = response.destroyed || socket.destroyed;
    if (isGone || (unsent === 0 && !isStream)) {
      budget.settle(held, 0);
      return;
    }
    budget.settle(held, isStream ? held.bytes : unsent);
    budget.wait(held, () => socket.destroy());
    const release = () => {
      socket.off('close', release);
      budget.settle(held, 0);
    };
    response.once('close', release);
    // An answer queued behind another one gets no event when the connection ends, so listen on the
    // socket.
    socket.setMaxListeners(0).once('close', release);
  }
}

export interface Answer {
  readonly status: number;
  /**
   * JSON without LINE_END. A large answer is a stream with LINE_END, and with its Content-Length in
   * the headers of the exchange.
   */
  readonly body: string | Readable;
  /** Number of values in the answer. */
  readonly values?: number;
  /** Strings that stayed in clear; undefined: not under a policy with fields. */
  readonly passed?: number | undefined;
  readonly kinds?: KindCounts | undefined;
}

/** Ends every body, so that a terminal shows what follows on a line of its own. */
export const LINE_END = '\n';

/** A line for each request would hide others. */
const LOGGED_ON_CHANGE: ReadonlySet<InternalReason> = new Set([
  'license_expired',
  'license_invalid',
  'database_unsafe',
  'issuer_unavailable',
  'audit_unavailable',
]);

const HEADERS = [
  'content-type',
  'application/json; charset=utf-8',
  'cache-control',
  'no-store',
  'x-content-type-options',
  'nosniff',
] as const;

/**
 * Ends a request that succeeded. With AUDIT_REQUIRED, the answer waits for its audit line.
 * @throws InternalError audit_unavailable
 */
export async function answerSuccess(
  context: ServerContext,
  exchange: Exchange,
  answer: Answer,
): Promise<void> {
  const audited = audit(context, exchange, 'success', answer);
  if (audited !== undefined) await audited;
  const { operation } = exchange;
  if (operation !== undefined) {
    const { space } = exchange.caller!.client;
    context.metrics.values(operation, answer.values!, space, answer.kinds);
    if (answer.passed !== undefined) sayStrings(exchange, answer.values!, answer.passed);
  }
  end(context, exchange, answer);
}

/** Says what became of the strings: a Dictionary of RFC 9651. */
function sayStrings({ headers, caller }: Exchange, replaced: number, passed: number): void {
  headers[STRINGS_HEADER] = `replaced=${replaced}, passed=${passed}`;
  caller!.use.replaced += replaced;
  caller!.use.passed += passed;
}

/** Ends a request that failed. */
export function answerError(context: ServerContext, exchange: Exchange, error: unknown): void {
  const failure = callerErrorOf(error);
  if (failure === undefined) {
    answerFailure(context, exchange, error);
    return;
  }
  const { code, retryAfterS } = failure;
  const { status, message } = CALLER_ERRORS[code];
  const body: Record<string, unknown> = { error: code };
  if (message !== '') body.message = failure.message;
  if (retryAfterS !== undefined) {
    body.retry_after = retryAfterS;
    exchange.headers['Retry-After'] = String(retryAfterS);
  }
  if (endsConnection(exchange.request.socket, code)) exchange.isLast = true;
  if (code === 'unauthorized') exchange.headers['WWW-Authenticate'] = challenge(exchange);
  const answer = { status, body: JSON.stringify(body) };
  void audit(context, exchange, code, answer);
  end(context, exchange, answer);
}

function answerFailure(context: ServerContext, exchange: Exchange, error: unknown): void {
  const failure =
    error instanceof InternalError ? error : new InternalError('unexpected', { cause: error });
  const { reason } = failure;
  if (!LOGGED_ON_CHANGE.has(reason))
    context.log.error({ request_id: exchange.id, reason, ...failureFields(error) });
  const body = JSON.stringify({ error: 'internal_error', message: failure.message });
  const answer = { status: 500, body };
  void audit(context, exchange, 'internal_error', answer);
  end(context, exchange, answer);
}

/** Every request that reached a route ends here: counts, logs and sends. */
function end(context: ServerContext, exchange: Exchange, answer: Answer): void {
  const { route = 'none', request } = exchange;
  const { status, values = 0 } = answer;
  const durationMs = performance.now() - exchange.startedAtMs;
  context.metrics.request(route, status, durationMs);
  context.log.request({
    request_id: exchange.id,
    correlation: exchange.correlation,
    caller: exchange.caller,
    method: request.method!,
    route,
    status,
    values,
    duration_ms: Math.round(durationMs * 1000) / 1000,
  });
  context.recent.push(exchange, answer, durationMs);
  endSpan(exchange, answer);
  // An unread body of unknown length would be read for ever, so its connection closes. A bounded
  // body is thrown away, and its connection stays.
  const isUnread = !request.complete && !hasBoundedBody(context, exchange);
  if (isUnread || context.state.phase !== 'serving') exchange.isLast = true;
  send(exchange, answer);
  exchange.letGo(context);
}

function send({ id, headers, isLast, response }: Exchange, { status, body }: Answer): void {
  const list = [...HEADERS, 'x-request-id', id];
  for (const name in headers) list.push(name, headers[name]!);
  if (isLast) list.push('connection', 'close');
  if (typeof body !== 'string') {
    response.writeHead(status, list);
    // A caller that goes away ends the stream; nobody is left to tell.
    pipeline(body, response, () => {});
    return;
  }
  const text = status === 204 ? body : `${body}${LINE_END}`;
  if (text !== '') list.push('content-length', String(Buffer.byteLength(text)));
  response.writeHead(status, list).end(text);
}

/**
 * Writes the audit line of a tokenize or detokenize request after its API key was checked.
 * @returns the promise that a success must wait for; rejects with InternalError audit_unavailable
 */
function audit(
  context: ServerContext,
  exchange: Exchange,
  outcome: string,
  { status, values = 0 }: Answer,
): Promise<void> | undefined {
  const { operation, caller } = exchange;
  if (context.audit === undefined || operation === undefined) return undefined;
  return context.audit.record({
    event: operation,
    outcome,
    status,
    request_id: exchange.id,
    ...exchange.correlation,
    client_id: caller?.client.client_id,
    api_key_id: caller?.api_key_id,
    subject: caller?.subject,
    values,
    unknown_tokens: exchange.unknownTokens || undefined,
    seen: exchange.seen,
    remote_address: exchange.request.socket.remoteAddress,
  });
}

/** A connection that breaks while its body is read is the caller's. */
function callerErrorOf(error: unknown): CallerError | undefined {
  if (error instanceof CallerError) return error;
  const isCut = (error as { code?: string } | null)?.code === 'ECONNRESET';
  return isCut ? new CallerError('bad_request') : undefined;
}

/** RFC 6750 section 3: a parameter is required, and `error` only when a credential was sent. */
function challenge({ request }: Exchange): string {
  const sent = request.headers.authorization === undefined ? '' : ', error="invalid_token"';
  return `Bearer realm="standin"${sent}`;
}

function hasBoundedBody({ bodyLimit }: ServerContext, { request }: Exchange): boolean {
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
  return encoding === undefined && Number(length ?? 0) <= bodyLimit;
}
