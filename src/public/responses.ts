import { pipeline } from 'node:stream';
import {
  CALLER_ERRORS,
  CallerError,
  InternalError,
  type InternalReason,
  overloaded,
} from '../errors.ts';
import { failureFields } from '../observe/log.ts';
import type { Exchange, ResponseContent } from './exchange.ts';
import { cutUnlessRight, isStillRight, seenOf } from './rights.ts';
import { JSON_HEADERS, LINE_END, NO_STORE_HEADERS, STRINGS_HEADER } from './schema.ts';
import { endsConnection } from './transport/connections.ts';

/** Policies that change while an answer is made, before its caller is told to come back. */
const MAX_REPEATS = 3;
/** How often a response under way is judged, whether its reader takes anything or not. */
const WATCH_INTERVAL_MS = 1_000;

/** A line for each request would hide others. */
const LOGGED_ON_CHANGE: ReadonlySet<InternalReason> = new Set([
  'license_expired',
  'license_invalid',
  'database_unsafe',
  'issuer_unavailable',
  'audit_unavailable',
]);

/**
 * Ends a request that succeeded, if the caller still has the rights to the answer. With
 * AUDIT_REQUIRED, the answer waits for its audit line.
 * @throws as `isStillRight`; CallerError overloaded when policies change faster than the answer can
 * be made; InternalError audit_unavailable
 */
export async function respond(exchange: Exchange, made: ResponseContent): Promise<void> {
  if (isBehindAnother(exchange)) await itsTurn(exchange);
  let answer = made;
  for (let left = MAX_REPEATS; ; left--) {
    const isRight = isStillRight(exchange);
    // Most requests are judged at once: no turn of the queue for them.
    if (isRight === true || (await isRight)) break;
    if (answer.again === undefined || left === 0) throw overloaded();
    answer = await answer.again();
  }
  const audited = audit(exchange, 'success', answer);
  if (audited !== undefined) {
    await audited;
    // A caller that lost the right meanwhile gets an error, and the audit log its line, too.
    if (!(await isStillRight(exchange))) throw overloaded();
  }
  const { operation } = exchange;
  if (operation !== undefined) {
    const { client, use } = exchange.caller!;
    const { values = 0, passed, kinds } = answer;
    exchange.context.metrics.values(operation, values, client.space, kinds);
    if (passed !== undefined) {
      // A Dictionary of RFC 9651.
      exchange.headers[STRINGS_HEADER] = `replaced=${values}, passed=${passed}`;
      use.counts.replaced += values;
      use.counts.passed += passed;
    }
  }
  end(exchange, answer);
  watch(exchange);
}

/** Whether an earlier response of the connection is under way, so that this one waits for it. */
function isBehindAnother({ request: { socket }, response }: Exchange): boolean {
  return response.socket === null && !socket.destroyed;
}

/** Resolves when this response is the next one of its connection, or the connection has ended. */
function itsTurn({ request: { socket }, response }: Exchange): Promise<void> {
  return new Promise((resolve) => {
    const begin = () => {
      response.off('socket', begin);
      socket.off('close', begin);
      resolve();
    };
    response.on('socket', begin);
    socket.setMaxListeners(0).on('close', begin);
  });
}

/** Judges the caller until the system has taken the whole response. */
function watch(exchange: Exchange): void {
  const { writableEnded, writableLength } = exchange.response;
  // A response that waited for its turn until the connection ended gets no event of its own.
  if (exchange.request.socket.destroyed || (writableEnded && writableLength === 0)) return;
  const cut = () => void cutUnlessRight(exchange);
  const timer = setInterval(cut, WATCH_INTERVAL_MS).unref();
  exchange.response.once('close', () => clearInterval(timer));
}

/** Ends a request that failed. */
export function respondError(exchange: Exchange, error: unknown): void {
  const failure = failureOf(error);
  const code = failure instanceof CallerError ? failure.code : 'internal_error';
  const answer =
    failure instanceof CallerError
      ? refusalOf(exchange, failure)
      : { status: 500, body: JSON.stringify({ error: code, message: failure.message }) };
  if (failure instanceof InternalError && !LOGGED_ON_CHANGE.has(failure.reason))
    exchange.context.log.error({
      request_id: exchange.id,
      reason: failure.reason,
      ...failureFields(error),
    });
  void audit(exchange, code, answer);
  end(exchange, answer);
}

function refusalOf(exchange: Exchange, { code, message, retryAfterS }: CallerError) {
  const error = CALLER_ERRORS[code];
  const body: Record<string, unknown> = { error: code };
  if (error.message !== '') body.message = message;
  if (retryAfterS !== undefined) {
    body.retry_after = retryAfterS;
    exchange.headers['Retry-After'] = String(retryAfterS);
  }
  if (endsConnection(exchange.request.socket, code)) exchange.isLast = true;
  const why = code === 'unauthorized' ? message || UNKNOWN : undefined;
  if (why !== undefined) exchange.headers['WWW-Authenticate'] = challenge(exchange, why);
  return { status: error.status, body: JSON.stringify(body), why };
}

/** Every request that reached a route ends here: counts, logs and sends. */
function end(exchange: Exchange, answer: ResponseContent): void {
  const { context, id, correlation, caller, route = 'none', request, span } = exchange;
  const { status, values = 0, why } = answer;
  const durationMs = performance.now() - exchange.startedAtMs;
  context.metrics.request(route, status, durationMs);
  const method = request.method!;
  const rounded = Math.round(durationMs * 1000) / 1000;
  const about = { request_id: id, correlation, caller, method, route, status, values, why };
  context.log.request(about, rounded);
  context.recent.push(exchange, answer, rounded);
  span?.end({ status, values, client_id: caller?.client.client_id });
  // An unread body of unknown length would be read for ever, so its connection closes. A bounded
  // body is thrown away, and its connection stays.
  const isUnread = !request.complete && !hasBoundedBody(exchange);
  if (isUnread || context.state.phase !== 'serving') exchange.isLast = true;
  send(exchange, answer);
  exchange.release();
}

function send(
  { id, headers, isLast, response }: Exchange,
  { status, body, bytes }: ResponseContent,
): void {
  const list = [...(status === 204 ? NO_STORE_HEADERS : JSON_HEADERS), 'X-Request-Id', id];
  for (const name in headers) list.push(name, headers[name]!);
  if (isLast) list.push('Connection', 'close');
  if (typeof body !== 'string') {
    list.push('Content-Length', String(bytes));
    response.writeHead(status, list);
    // A caller that goes away ends the stream; nobody is left to tell.
    pipeline(body, response, () => {});
    return;
  }
  const text = status === 204 ? body : `${body}${LINE_END}`;
  if (text !== '') list.push('Content-Length', String(Buffer.byteLength(text)));
  response.writeHead(status, list).end(text);
}

/**
 * Writes the audit line of a request after its API key was checked.
 * @returns the promise that a success must wait for; rejects with InternalError audit_unavailable
 */
function audit(
  exchange: Exchange,
  outcome: string,
  { status, values = 0 }: ResponseContent,
): Promise<void> | undefined {
  const { event, caller, shown } = exchange;
  const log = exchange.context.audit;
  if (log === undefined || event === undefined) return undefined;
  const isDone = outcome === 'success';
  const hidden = isDone ? [...(shown?.hidden.values() ?? [])] : [];
  return log.record({
    event,
    outcome,
    status,
    request_id: exchange.id,
    ...exchange.correlation,
    client_id: caller?.client.client_id,
    api_key_id: caller?.api_key_id,
    subject: caller?.subject,
    values,
    unknown_tokens: exchange.unknownTokens || undefined,
    forbidden: hidden.reduce((sum, count) => sum + count, 0) || undefined,
    seen: isDone ? seenOf(shown) : undefined,
    remote_address: exchange.request.socket.remoteAddress,
  });
}

/** A connection that breaks while its body is read is the caller's failure. */
function failureOf(error: unknown): CallerError | InternalError {
  if (error instanceof CallerError || error instanceof InternalError) return error;
  const isCut = (error as { code?: string } | null)?.code === 'ECONNRESET';
  return isCut ? new CallerError('bad_request') : new InternalError('unexpected', { cause: error });
}

/** Of a credential in the right form. Which of the three would say what the vault has. */
const UNKNOWN = 'the API key or JWT is unknown, expired or revoked';

/**
 * RFC 6750 section 3: a parameter is required, and `error` only when a credential was sent.
 * @param why without quotes and backslashes
 */
function challenge({ request }: Exchange, why: string): string {
  const error = `, error="invalid_token", error_description="${why}"`;
  return `Bearer realm="standin"${request.headers.authorization === undefined ? '' : error}`;
}

function hasBoundedBody({ context, request }: Exchange): boolean {
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
  return encoding === undefined && Number(length ?? 0) <= context.bodyLimit;
}
