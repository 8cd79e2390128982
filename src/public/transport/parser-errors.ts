import { randomUUID } from 'node:crypto';
import { type Server, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { CALLER_ERRORS, type CallerErrorCode } from '../../errors.ts';
import { JSON_HEADERS, LINE_END } from '../schema.ts';
import { isEnding } from './connections.ts';
import { refuseAfterAnswers } from './pipelining.ts';

const CODES: Record<string, CallerErrorCode> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'payload_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/**
 * Answers requests that Node's HTTP parser refuses, in the form of all other errors and after the
 * answers to the requests before. Then the connection closes.
 */
export function refuseUnparsed(
  server: Server,
  onRefused?: (requestId: string, status: number, code: string) => void,
): void {
  const refuse = (socket: Socket, code: string) => {
    if (isEnding(socket)) return;
    refuseAfterAnswers(socket, () => {
      if (!socket.writable) return void socket.destroy();
      const error = CODES[code] ?? 'bad_request';
      const { status, message } = CALLER_ERRORS[error];
      const requestId = randomUUID();
      onRefused?.(requestId, status, code);
      const body = JSON.stringify({ error, message }) + LINE_END;
      socket.end(rawAnswer(status, body, requestId), () => socket.destroy());
    });
  };
  server.on('clientError', ({ code = '' }: NodeJS.ErrnoException, socket: Socket) => {
    // Any other error is one of the connection, such as a reset or a failed TLS handshake.
    if (/^(HPE|ERR_HTTP)_/.test(code)) refuse(socket, code);
    else socket.destroy();
  });
  // Without a listener, Node closes the connection without an answer.
  server.on('connect', (_, socket: Socket) => refuse(socket, 'HPE_INVALID_METHOD'));
}

/** A whole HTTP/1.1 answer for a request without a response object. */
function rawAnswer(status: number, body: string, requestId: string): string {
  const headers = [...JSON_HEADERS, 'X-Request-Id', requestId, 'Connection', 'close'];
  headers.push('Content-Length', String(Buffer.byteLength(body)));
  let text = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
  for (let i = 0; i < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`;
  return `${text}\r\n${body}`;
}
