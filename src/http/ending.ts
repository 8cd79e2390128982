import type { Socket } from 'node:net';
import type { CallerErrorCode } from '../errors.ts';

/** A caller may correct a wrong API key this many times on one connection. */
const MAX_UNAUTHORIZED = 5;

/** Number of 401 answers on a connection. */
const unauthorized = new WeakMap<Socket, number>();
/** Connections that close after the current answer. */
const ending = new WeakSet<Socket>();

/** Counts the error, and tells whether its answer is the last one on its connection. */
export function endsConnection(socket: Socket, code: CallerErrorCode): boolean {
  // After these errors, the parser and the service may disagree about where the request ends.
  let isLast = code === 'bad_request' || code === 'headers_too_large';
  if (code === 'unauthorized') {
    const count = (unauthorized.get(socket) ?? 0) + 1;
    unauthorized.set(socket, count);
    isLast = count >= MAX_UNAUTHORIZED;
  }
  if (isLast) ending.add(socket);
  return isLast;
}

/** Whether the connection is ending. Further requests and parser errors on it are ignored. */
export function isEnding(socket: Socket): boolean {
  return ending.has(socket);
}
