import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { Refusal } from './server.ts';

const BEARER = /^bearer +([^\s]+)$/i;
/** Loopback names, with an optional port. */
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i;
/** The characters of a host (RFC 3986, section 3.2.2) and a port, in any order. */
const HOST = /^[\w.~!$&'()*+,;=%:[\]-]*$/;

/** Decides which requests the ops listener answers. */
export class Access {
  /** undefined: OPS_TOKEN is not set, and the listener accepts only this machine. */
  readonly sessions: Sessions | undefined;

  /** @param token OPS_TOKEN; undefined: no sign-in */
  constructor(token: string | undefined) {
    this.sessions = token === undefined ? undefined : new Sessions(token);
  }

  /**
   * Refuses two Host headers, because a proxy may use the other one. Without a token, the name must
   * also be a loopback name. Otherwise any page in a browser on this machine could read this
   * listener, by pointing the name of its own host here (DNS rebinding).
   * @throws Refusal
   */
  checkHost({ headers: { host }, headersDistinct }: IncomingMessage): void {
    if (this.sessions === undefined && !LOOPBACK.test(host ?? '')) {
      throw new Refusal(
        421,
        'misdirected',
        'Without OPS_TOKEN this listener answers only to localhost, 127.0.0.1 and [::1] in the Host header. Use one of them, or set OPS_TOKEN.',
      );
    }
    if ((headersDistinct.host?.length ?? 0) > 1 || !HOST.test(host ?? '')) {
      throw new Refusal(400, 'bad_request', 'Send one Host header with a name and a port.');
    }
  }

  isAllowed({ headers: { authorization, cookie } }: IncomingMessage): boolean {
    if (this.sessions === undefined || this.sessions.has(cookie)) return true;
    const token = BEARER.exec(authorization ?? '')?.[1];
    return token !== undefined && this.sessions.isToken(token);
  }

  /** @throws Refusal */
  checkAllowed(request: IncomingMessage): void {
    if (!this.isAllowed(request)) {
      throw new Refusal(401, 'unauthorized', 'Send the OPS_TOKEN as a bearer token, or sign in.');
    }
  }
}

/**
 * For requests that change something: another site can make a browser send them with its cookies.
 * Programs send neither header. Browsers send only `Origin` over HTTP in clear. @throws Refusal
 */
export function checkSameOrigin({ headers }: IncomingMessage): void {
  const { origin, host, 'sec-fetch-site': site } = headers;
  const isOwn =
    site === undefined
      ? origin === undefined || hostOf(origin) === host?.toLowerCase()
      : site === 'same-origin';
  if (!isOwn)
    throw new Refusal(403, 'cross_origin', 'Only pages of this listener may send this request.');
}

/**
 * For requests that read: another page cannot see the answer, but would take a place from a page
 * that can. The address bar (`none`) and links may lead here, frames and images may not.
 * @throws Refusal
 */
export function checkNotEmbedded(request: IncomingMessage): void {
  const {
    'sec-fetch-site': site,
    'sec-fetch-mode': mode,
    'sec-fetch-dest': target,
  } = request.headers;
  const isFollowed = mode === 'navigate' && target === 'document';
  if (site !== 'none' && !isFollowed) checkSameOrigin(request);
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}

const SESSION_MS = 12 * 3_600_000;
/** One session more ends the oldest session. */
const MAX_SESSIONS = 100;
/** Sign-in attempts of an address, right or wrong: a burst, then a rate. */
const MAX_TRIES = 5;
const TRIES_A_SECOND = 2;
/** Beyond this limit, the address whose last attempt is oldest gets a full burst again. */
const MAX_ADDRESSES = 1_000;
const COOKIE = 'standin_console';

/** Signed-in browsers. Sessions are only in memory, so a restart signs everybody out. */
export class Sessions {
  readonly #digest: Buffer;
  readonly #now: () => number;
  /** The end of each session by id, oldest session first. */
  readonly #endsAtMs = new Map<string, number>();
  /** By address, the latest attempt last. */
  readonly #tries = new Map<string | undefined, { left: number; countedAtMs: number }>();

  /** @param now milliseconds of a monotonic clock */
  constructor(token: string, now: () => number = () => performance.now()) {
    this.#digest = digestOf(token);
    this.#now = now;
  }

  /** Takes constant time, so the time tells nothing about the token. */
  isToken(text: string): boolean {
    return timingSafeEqual(digestOf(text), this.#digest);
  }

  /** Counts an attempt from the address, and returns whether it is allowed. */
  takeTry(address: string | undefined): boolean {
    const nowMs = this.#now();
    const before = this.#tries.get(address) ?? { left: MAX_TRIES, countedAtMs: nowMs };
    const gained = ((nowMs - before.countedAtMs) / 1000) * TRIES_A_SECOND;
    const left = Math.min(MAX_TRIES, before.left + gained);
    const isAllowed = left >= 1;
    this.#tries.delete(address);
    this.#tries.set(address, { left: isAllowed ? left - 1 : left, countedAtMs: nowMs });
    if (this.#tries.size > MAX_ADDRESSES) this.#tries.delete(this.#tries.keys().next().value);
    return isAllowed;
  }

  /** Begins a session. @returns the value of Set-Cookie */
  begin(): string {
    if (this.#endsAtMs.size >= MAX_SESSIONS) {
      this.#endsAtMs.delete(this.#endsAtMs.keys().next().value!);
    }
    const id = randomBytes(32).toString('base64url');
    this.#endsAtMs.set(id, this.#now() + SESSION_MS);
    return cookie(id, SESSION_MS / 1000);
  }

  /** @param cookies the Cookie header of a request */
  has(cookies: string | undefined): boolean {
    const id = idIn(cookies);
    const endsAtMs = id === undefined ? undefined : this.#endsAtMs.get(id);
    return endsAtMs !== undefined && this.#now() < endsAtMs;
  }

  /** Ends a session. @returns the value of Set-Cookie that deletes the cookie */
  end(cookies: string | undefined): string {
    const id = idIn(cookies);
    if (id !== undefined) this.#endsAtMs.delete(id);
    return cookie('', 0);
  }
}

/** Not Secure: the ops listener speaks HTTP in clear, where browsers send no Secure cookie. */
function cookie(id: string, maxAgeS: number): string {
  return `${COOKIE}=${id}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAgeS}`;
}

function idIn(cookies: string | undefined): string | undefined {
  const found = cookies?.split(/; */).find((one) => one.startsWith(`${COOKIE}=`));
  return found?.slice(COOKIE.length + 1);
}

/** Digests have equal length, which timingSafeEqual requires. */
function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
