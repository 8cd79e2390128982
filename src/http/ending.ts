import type { Socket } from 'node:net';
import type { CallerErrorCode } from '../errors.ts';

/** A caller with a wrong API key may correct it on the same connection, so many times. */
const MAX_UNAUTHORIZED = 5;

/** How many 401 answers a connection has had. */
const unauthorized = new WeakMap<Socket, number>();
/** Connections that end with the answer under way. */
const ending = new WeakSet<Socket>();

/** Whether the answer of this error is the last one of its connection. It is counted. */
export function endsConnection(socket: Socket, code: CallerErrorCode): boolean {
  // The parser and we may not agree on where this request ends.
  let isLast = code === 'bad_request' || code === 'headers_too_large';
  if (code === 'unauthorized') {
    const count = (unauthorized.get(socket) ?? 0) + 1;
    unauthorized.set(socket, count);
    isLast = count >= MAX_UNAUTHORIZED;
  }
  if (isLast) ending.add(socket);
  return isLast;
}

/** Nothing more on such a connection is looked at, and no error of its parser answered. */
export function isEnding(socket: Socket): boolean {
  return ending.has(socket);
}
