import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { CALLER_ERRORS, type CallerErrorCode } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import { isEnding } from './connections.ts';
import { LINE_END } from './exchange.ts';

const CODES: Record<string, CallerErrorCode> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'payload_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/**
 * Answers requests that Node's HTTP parser refuses, in the form of all other errors. Then the
 * connection closes.
 */
export function parserErrorHandler(log: Log, metrics: Metrics) {
  return (error: NodeJS.ErrnoException, socket: Socket): void => {
    if (isEnding(socket)) return;
    // Any other error is one of the connection, such as a reset or a failed TLS handshake.
    if (!/^(HPE|ERR_HTTP)_/.test(error.code ?? '') || !socket.writable) {
      socket.destroy();
      return;
    }
    const code = CODES[error.code ?? ''] ?? 'bad_request';
    const { status, message } = CALLER_ERRORS[code];
    const requestId = randomUUID();
    metrics.request('none', status, 0);
    log.info({ request_id: requestId, status, error: error.code });
    const body = `${JSON.stringify({ error: code, message })}${LINE_END}`;
    socket.end(rawAnswer(status, body, requestId), () => socket.destroy());
  };
}

/** A whole HTTP/1.1 answer for a request without a response object. */
function rawAnswer(status: number, body: string, requestId: string): string {
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Content-Type: application/json; charset=utf-8',
    'Cache-Control: no-store',
    'X-Content-Type-Options: nosniff',
    `X-Request-Id: ${requestId}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
    '',
    body,
  ].join('\r\n');
}
