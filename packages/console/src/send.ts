import { SESSION_HEADERS } from './protocol.ts';
import { recall } from './remembered.ts';

export type SessionName = keyof typeof SESSION_HEADERS;

/** Sends a request of this page, with the page's secrets of the sessions that it has. */
export function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  for (const name of Object.keys(SESSION_HEADERS) as SessionName[]) {
    const secret = recall(name);
    if (secret !== null) headers.set(SESSION_HEADERS[name], secret);
  }
  return fetch(path, { cache: 'no-store', ...init, headers });
}
