import type { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { CALLER_ERRORS, CallerError, InternalError } from '../errors.ts';
import { failureFields } from '../log.ts';
import { audit } from './audit.ts';
import type { ServerContext } from './context.ts';
import { endsConnection } from './ending.ts';
import { letGo } from './held.ts';
import { routeOf } from './routes.ts';
import { ERROR_FIELDS } from './schema.ts';

const HEADERS = {
  'content-type': 'application/json; charset=utf-8',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
} as const;
const HEADER_LIST: readonly string[] = Object.entries(HEADERS).flat();

/** Answers, logs and counts a request. Every request that reached a route ends here. */
export function answer(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  status: number,
  body: string | Readable,
  values = 0,
): FastifyReply {
  const route = routeOf(request.url) ?? 'none';
  const durationMs = performance.now() - request.startedAtMs;
  context.metrics.request(route, status, durationMs);
  context.log.request({
    request_id: request.id,
    caller: request.caller,
    method: request.method,
    route,
    status,
    values,
    duration_ms: Math.round(durationMs * 1000) / 1000,
  });
  // An unread body of unknown length would be read for ever, so its connection closes. A bounded
  // body is thrown away, and its connection stays.
  const isUnread = !request.raw.complete && !hasBoundedBody(context, request);
  if (isUnread || context.state.phase !== 'serving') reply.header('Connection', 'close');
  send(reply, status, request.id, body);
  letGo(context, request, reply);
  return reply;
}

/** Fastify sends streams and empty answers. The rest are written here, at half the cost. */
function send(reply: FastifyReply, status: number, id: string, body: string | Readable): void {
  if (typeof body !== 'string' || body === '') {
    reply.code(status).headers(HEADERS).header('x-request-id', id).send(body);
    return;
  }
  const length = String(Buffer.byteLength(body));
  const headers = [...HEADER_LIST, 'x-request-id', id, 'content-length', length];
  const ofThisOne = reply.getHeaders();
  for (const name in ofThisOne) headers.push(name, String(ofThisOne[name]));
  reply.hijack();
  reply.raw.writeHead(status, headers).end(body);
}

export function answerError(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  error: unknown,
): FastifyReply {
  const failure = callerErrorOf(error);
  if (failure === undefined) return answerFailure(context, request, reply, error);
  const { code, retryAfterS } = failure;
  const body: Record<string, unknown> = { error: code };
  if (ERROR_FIELDS[code] === 'message') body.message = failure.message;
  if (retryAfterS !== undefined) {
    body.retry_after = retryAfterS;
    reply.header('Retry-After', retryAfterS);
  }
  if (endsConnection(request.raw.socket, code)) reply.header('Connection', 'close');
  if (code === 'unauthorized') reply.header('WWW-Authenticate', challenge(request));
  const { status } = CALLER_ERRORS[code];
  void audit(context, request, code, status);
  return answer(context, request, reply, status, JSON.stringify(body));
}

function answerFailure(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  error: unknown,
): FastifyReply {
  const failure =
    error instanceof InternalError ? error : new InternalError('unexpected', { cause: error });
  context.log.error({ request_id: request.id, reason: failure.reason, ...failureFields(error) });
  const body = JSON.stringify({ error: 'internal_error', message: failure.message });
  void audit(context, request, 'internal_error', 500);
  return answer(context, request, reply, 500, body);
}

/** Fastify's codes for mistakes of the caller. Every other error of Fastify is ours. */
const FASTIFY_CODES: Record<string, CallerError> = {
  FST_ERR_CTP_BODY_TOO_LARGE: new CallerError('payload_too_large'),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: new CallerError('unsupported_media_type'),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: new CallerError('bad_request'),
  FST_ERR_BAD_URL: new CallerError('not_found'),
  ECONNRESET: new CallerError('bad_request'),
};

function callerErrorOf(error: unknown): CallerError | undefined {
  if (error instanceof CallerError) return error;
  return FASTIFY_CODES[(error as { code?: string }).code ?? ''];
}

/** RFC 6750 section 3: `error` only when a credential was sent. */
function challenge(request: FastifyRequest): string {
  const sent = request.headers.authorization === undefined ? '' : ', error="invalid_token"';
  return `Bearer realm="standin"${sent}`;
}

function hasBoundedBody(context: ServerContext, request: FastifyRequest): boolean {
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
  return encoding === undefined && Number(length ?? 0) <= context.bodyLimit;
}
