import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { getCookie, setCookie } from 'hono/cookie';
import { SESSION_HEADERS, type SignedIn } from '#console';
import type { AdminToken } from '../options.ts';
import { refusal } from './errors.ts';
import type { OpsContext } from './web.ts';

/** Digests have equal length, which timingSafeEqual requires. */
const digestOf = (secret: string): Buffer => createHash('sha256').update(secret).digest();

/** Takes constant time, so the time tells nothing about the secret. */
const isSecret = (text: string, digest: Buffer): boolean => timingSafeEqual(digestOf(text), digest);

/** Attempts of an address: a burst, then one in this time. */
const MAX_TRIES = 5;
const TRY_MS = 500;
/** Beyond this limit, the address whose last attempt is oldest gets a full burst again. */
const MAX_ADDRESSES = 1_000;

/** Slows an address that guesses a secret. */
export class Tries {
  readonly #now: () => number;
  /** When each address has all its attempts again, the latest attempt last. */
  readonly #fullAtMs = new Map<string | undefined, number>();

  /** @param now milliseconds of a monotonic clock */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Counts an attempt from the address, and returns whether it is allowed. */
  take(address: string | undefined): boolean {
    const isAllowed = this.has(address);
    const fullAtMs = this.#now() + this.#owedMs(address) + (isAllowed ? TRY_MS : 0);
    this.#fullAtMs.delete(address);
    this.#fullAtMs.set(address, fullAtMs);
    if (this.#fullAtMs.size > MAX_ADDRESSES)
      this.#fullAtMs.delete(this.#fullAtMs.keys().next().value);
    return isAllowed;
  }

  /** Whether the address has an attempt left. */
  has(address: string | undefined): boolean {
    return this.#owedMs(address) <= (MAX_TRIES - 1) * TRY_MS;
  }

  #owedMs(address: string | undefined): number {
    return Math.max(0, (this.#fullAtMs.get(address) ?? 0) - this.#now());
  }
}

/** The tokens of a setting. */
export class CsrfTokens {
  readonly #setting: string;
  readonly #tokens: readonly { readonly name: string; readonly digest: Buffer }[];
  readonly #tries = new Tries();

  constructor(setting: string, tokens: readonly AdminToken[]) {
    this.#setting = setting;
    this.#tokens = tokens.map(({ name, token }) => ({ name, digest: digestOf(token) }));
  }

  /** undefined: this is none of them. */
  nameOf(token: string): string | undefined {
    // All of them, so that the time tells nothing of which is right. People paste the name, too.
    const [found] = this.#tokens.filter(({ name, digest }) =>
      isSecret(token.startsWith(`${name}:`) ? token.slice(name.length + 1) : token, digest),
    );
    return found?.name;
  }

  /**
   * Only wrong tokens take an attempt, so that programs can send many requests. Without an attempt
   * left, the right token is refused, too: guessing faster gives nothing.
   * @returns the name of the token
   * @throws Refusal unauthorized or too_many
   */
  check(token: string, address: string | undefined): string {
    if (!this.#tries.has(address))
      throw refusal('too_many', 'Too many wrong tokens from this address. Wait a second.');
    const name = this.nameOf(token);
    if (name !== undefined) return name;
    this.#tries.take(address);
    throw refusal('unauthorized', `This is not the ${this.#setting} of this service.`);
  }
}

/** One session more ends the oldest session. */
const MAX_SESSIONS = 100;

interface SessionOptions {
  /** Gives the cookie and the header their names. */
  readonly name: keyof typeof SESSION_HEADERS;
  readonly durationMs: number;
  /** Whether browsers send the cookie over TLS only. Over HTTP in clear, they would not send it. */
  readonly isSecure: boolean;
}

interface ConsoleSession<T> {
  readonly about: T;
  readonly endsAtMs: number;
  /** Digest of the secret of the page. */
  readonly digest: Buffer;
}

/** Signed-in browsers. Sessions are only in memory, so a restart signs everybody out. */
export class Sessions<T> {
  readonly #options: SessionOptions;
  readonly #now: () => number;
  /** By id, oldest session first. */
  readonly #sessions = new Map<string, ConsoleSession<T>>();

  /** @param now milliseconds of a monotonic clock */
  constructor(options: SessionOptions, now: () => number = () => performance.now()) {
    this.#options = options;
    this.#now = now;
  }

  /** @param about what `find` returns */
  begin(c: OpsContext, about: T): SignedIn {
    // A session of before ends: nobody could end it any more.
    this.#drop(c);
    if (this.#sessions.size >= MAX_SESSIONS) {
      this.#sessions.delete(this.#sessions.keys().next().value!);
    }
    const { durationMs } = this.#options;
    const [id, secret] = [randomText(), randomText()];
    const endsAtMs = this.#now() + durationMs;
    this.#sessions.set(id, { about, endsAtMs, digest: digestOf(secret) });
    this.#setCookie(c, id, durationMs / 1000);
    return { page_secret: secret };
  }

  /** What the session of a request is about; undefined: there is none. */
  find(c: OpsContext): T | undefined {
    const session = this.#sessions.get(this.#idIn(c));
    const { name } = this.#options;
    const secret = String(c.env.incoming.headers[SESSION_HEADERS[name].toLowerCase()]);
    if (session === undefined || !isSecret(secret, session.digest)) return undefined;
    return this.#now() < session.endsAtMs ? session.about : undefined;
  }

  /** Ends the session of a request, and deletes its cookie. */
  end(c: OpsContext): void {
    this.#drop(c);
    this.#setCookie(c, '', 0);
  }

  #drop(c: OpsContext): void {
    if (this.find(c) !== undefined) this.#sessions.delete(this.#idIn(c));
  }

  #setCookie(c: OpsContext, id: string, maxAge: number): void {
    const { name, isSecure: secure } = this.#options;
    setCookie(c, `standin_${name}`, id, { httpOnly: true, sameSite: 'Strict', maxAge, secure });
  }

  /** '': no session. */
  #idIn(c: OpsContext): string {
    return getCookie(c, `standin_${this.#options.name}`) ?? '';
  }
}

function randomText(): string {
  return randomBytes(32).toString('base64url');
}
