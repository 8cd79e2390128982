import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

const SESSION_MS = 12 * 3_600_000;
/** The oldest one ends when there is one more. */
const MAX_SESSIONS = 100;
/** Tries to sign in from an address, right or wrong: so many at once, then so many a second. */
const MAX_TRIES = 5;
const TRIES_A_SECOND = 2;
/** Beyond it, the address that has not tried for longest has all its tries again. */
const MAX_ADDRESSES = 1_000;
const COOKIE = 'standin_console';

/** Who has shown OPS_TOKEN in a browser; only in memory, so that a restart signs everybody out. */
export class Sessions {
  readonly #digest: Buffer;
  readonly #now: () => number;
  /** When they end, by id; in the order in which they began. */
  readonly #endsAtMs = new Map<string, number>();
  /** By address, the one that tried last at the end. */
  readonly #tries = new Map<string | undefined, { left: number; countedAtMs: number }>();

  /** @param now milliseconds of any clock that only rises */
  constructor(token: string, now: () => number = () => performance.now()) {
    this.#digest = digestOf(token);
    this.#now = now;
  }

  /** In a time that tells nothing of the token. */
  isToken(text: string): boolean {
    return timingSafeEqual(digestOf(text), this.#digest);
  }

  /** Whether one more try may be made from the address now; it is counted. */
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

  /** @param cookies the header of a request */
  has(cookies: string | undefined): boolean {
    const id = idIn(cookies);
    const endsAtMs = id === undefined ? undefined : this.#endsAtMs.get(id);
    return endsAtMs !== undefined && this.#now() < endsAtMs;
  }

  /** @returns the value of Set-Cookie that makes a browser forget it */
  end(cookies: string | undefined): string {
    const id = idIn(cookies);
    if (id !== undefined) this.#endsAtMs.delete(id);
    return cookie('', 0);
  }
}

/** Not Secure: the ops listener speaks HTTP in clear, and a browser would not send it back. */
function cookie(id: string, maxAgeS: number): string {
  return `${COOKIE}=${id}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAgeS}`;
}

function idIn(cookies: string | undefined): string | undefined {
  const found = cookies?.split(/; */).find((one) => one.startsWith(`${COOKIE}=`));
  return found?.slice(COOKIE.length + 1);
}

/** Of one length, whatever was sent. */
function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
