import { SESSION_HEADERS } from './protocol.ts';

export type SessionName = keyof typeof SESSION_HEADERS;

/** For a browser that forbids storage: until the page closes. */
const kept = new Map<SessionName, string>();

/**
 * The secret of the page in a session, which the browser stores for this page, and for no other
 * port of the host. It is worth nothing without the cookie.
 */
export function recall(name: SessionName): string | null {
  try {
    return localStorage.getItem(`standin.${name}`);
  } catch {
    return kept.get(name) ?? null;
  }
}

/** @param value null: forgets it */
export function remember(name: SessionName, value: string | null): void {
  kept.delete(name);
  if (value !== null) kept.set(name, value);
  try {
    if (value === null) localStorage.removeItem(`standin.${name}`);
    else localStorage.setItem(`standin.${name}`, value);
  } catch {}
}

/** Sends a request of this page, with the page's secrets of the sessions that it has. */
export function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  for (const name of Object.keys(SESSION_HEADERS) as SessionName[]) {
    const secret = recall(name);
    if (secret !== null) headers.set(SESSION_HEADERS[name], secret);
  }
  return fetch(path, { cache: 'no-store', ...init, headers });
}

/** The service refused a request, or could not be reached. The message is for people. */
export class Refused extends Error {
  /** 0: there is no response. */
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/**
 * Sends a request with a body of JSON, and returns the JSON of the response.
 * @throws Refused
 */
export async function ask<T>(
  path: string,
  method = 'GET',
  body?: object,
  headers: Record<string, string> = {},
): Promise<T> {
  const type = body && { 'Content-Type': 'application/json' };
  const init = { method, headers: { ...type, ...headers } };
  const sent = send(path, body ? { ...init, body: JSON.stringify(body) } : init);
  const response = await sent.catch(() => {
    throw new Refused(0, 'The service cannot be reached. Try again.');
  });
  const json = await response.json().catch(() => ({}));
  if (response.ok) return json;
  throw new Refused(response.status, json.message ?? `The service answered ${response.status}.`);
}
