import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

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
