import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { getCookie, setCookie } from 'hono/cookie';
import { SESSION_HEADERS, type SignedIn, TICKET_HEADER } from '#console';
import { BEARER } from '../access/authenticator.ts';
import { type AdminToken, LOOPBACK } from '../options.ts';
import { isWellFormed } from '../public/guards.ts';
import { refusal } from './errors.ts';
import { isReading, type OpsContext } from './web.ts';

/** Digests have equal length, which timingSafeEqual requires. */
const digestOf = (secret: string): Buffer => createHash('sha256').update(secret).digest();

/** Takes constant time, so the time tells nothing about the secret. */
const isSecret = (text: string, digest: Buffer): boolean => timingSafeEqual(digestOf(text), digest);

const randomText = (bytes: number): string => randomBytes(bytes).toString('base64url');

/** The token of a request; undefined: it has none. */
const bearerOf = ({ headers }: IncomingMessage): string | undefined =>
  BEARER.exec(headers.authorization ?? '')?.[1];

/** Wrong tokens of an address: a burst, then one in this time. */
const MAX_TRIES = 5;
const TRY_MS = 500;
/** Beyond this limit, the address whose last attempt is oldest gets a full burst again. */
const MAX_ADDRESSES = 1_000;
const SECRET_BYTES = 32;
/** One session more ends the oldest session. */
const MAX_SESSIONS = 100;
const HOUR_MS = 3_600_000;

/** The sign-ins by the names of their cookies. A browser must not stay an administrator. */
const SIGN_INS = {
  console: { setting: 'OPS_TOKEN', durationMs: 12 * HOUR_MS },
  admin: { setting: 'ADMIN_TOKEN', durationMs: HOUR_MS },
} as const satisfies Record<keyof typeof SESSION_HEADERS, object>;

/** A signed-in browser. */
interface Session {
  /** Of the token. */
  readonly name: string;
  /** Each lets one act of an administrator through. */
  readonly tickets: Set<string>;
  readonly endsAtMs: number;
  /** Digest of the secret of the page. */
  readonly digest: Buffer;
}

/** Tokens, and the browsers that signed in with one. A restart signs everybody out. */
export class SignIn {
  readonly #of: keyof typeof SIGN_INS;
  readonly #tokens: readonly { readonly name: string; readonly digest: Buffer }[];
  readonly #isSecure: boolean;
  readonly #now: () => number;
  /** When each address has all its attempts again, the latest attempt last. */
  readonly #fullAtMs = new Map<string | undefined, number>();
  /** By id, oldest session first. */
  readonly #sessions = new Map<string, Session>();

  /**
   * @param isSecure whether browsers send the cookie over TLS only: over HTTP, they do not
   * @param now milliseconds of a monotonic clock
   */
  constructor(
    of: keyof typeof SIGN_INS,
    tokens: readonly AdminToken[],
    isSecure: boolean,
    now: () => number = () => performance.now(),
  ) {
    this.#of = of;
    this.#tokens = tokens.map(({ name, token }) => ({ name, digest: digestOf(token) }));
    this.#isSecure = isSecure;
    this.#now = now;
  }

  /** undefined: this is none of the tokens. */
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
    const nowMs = this.#now();
    const fullAtMs = Math.max(nowMs, this.#fullAtMs.get(address) ?? 0);
    if (fullAtMs - nowMs > (MAX_TRIES - 1) * TRY_MS)
      throw refusal('too_many', 'Too many wrong tokens from this address. Wait a second.');
    const name = this.nameOf(token);
    if (name !== undefined) return name;
    this.#fullAtMs.delete(address);
    this.#fullAtMs.set(address, fullAtMs + TRY_MS);
    evictOldest(this.#fullAtMs, MAX_ADDRESSES);
    const { setting } = SIGN_INS[this.#of];
    throw refusal('unauthorized', `This is not the ${setting} of this service.`);
  }

  begin(c: OpsContext, name: string): SignedIn {
    // A session of before ends: nobody could end it any more.
    this.#drop(c);
    const { durationMs } = SIGN_INS[this.#of];
    const [id, secret] = [randomText(SECRET_BYTES), randomText(SECRET_BYTES)];
    const endsAtMs = this.#now() + durationMs;
    this.#sessions.set(id, { name, tickets: new Set(), endsAtMs, digest: digestOf(secret) });
    evictOldest(this.#sessions, MAX_SESSIONS);
    this.#setCookie(c, id, durationMs / 1000);
    return { page_secret: secret };
  }

  /** The session of a request; undefined: there is none. */
  find(c: OpsContext): Session | undefined {
    const session = this.#sessions.get(this.#idIn(c));
    const secret = String(c.env.incoming.headers[SESSION_HEADERS[this.#of].toLowerCase()]);
    if (session === undefined || !isSecret(secret, session.digest)) return undefined;
    return this.#now() < session.endsAtMs ? session : undefined;
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
    const secure = this.#isSecure;
    setCookie(c, `standin_${this.#of}`, id, { httpOnly: true, sameSite: 'Strict', maxAge, secure });
  }

  /** '': no session. */
  #idIn(c: OpsContext): string {
    return getCookie(c, `standin_${this.#of}`) ?? '';
  }
}

/** Of what was added one by one. */
function evictOldest(all: Map<string | undefined, unknown> | Set<string>, most: number): void {
  if (all.size > most) all.delete(all.keys().next().value!);
}

/**
 * Refuses two Host headers, because a proxy may use the other one. Without a sign-in, the name must
 * also be a loopback name. Otherwise any page in a browser on this machine could read this
 * listener, by pointing the name of its own host here (DNS rebinding).
 * @throws Refusal
 */
export function checkHost(request: IncomingMessage, hasSignIn: boolean): void {
  const host = request.headers.host?.replace(/:\d+$/, '') ?? '';
  if (!hasSignIn && !LOOPBACK.test(host)) {
    throw refusal(
      'misdirected',
      'Without OPS_TOKEN this listener answers only to localhost, 127.0.0.1 and [::1] in the Host header. Use one of them, or set OPS_TOKEN.',
    );
  }
  if (!isWellFormed(request)) {
    throw refusal('bad_request', 'Send one Host header with a name and a port.');
  }
}

/** @param signIn undefined: OPS_TOKEN is not set, and the listener accepts only this machine */
export function isAllowed(c: OpsContext, signIn: SignIn | undefined): boolean {
  if (signIn === undefined || signIn.find(c) !== undefined) return true;
  const token = bearerOf(c.env.incoming);
  return token !== undefined && signIn.nameOf(token) !== undefined;
}

/** Tickets that a page has fetched and not used. One more ends the oldest. */
const MAX_TICKETS = 20;
const TICKET_BYTES = 24;

/** Decides who may use the admin API: programs by their token, the console by its session. */
export class AdminAccess extends SignIn {
  /**
   * The name of the caller's token.
   * @throws Refusal unauthorized, too_many or cross_origin
   */
  callerOf(c: OpsContext): string {
    const { incoming } = c.env;
    const token = bearerOf(incoming);
    if (token !== undefined) return this.check(token, incoming.socket.remoteAddress);
    const session = this.#sessionOf(c, 'Send a token of ADMIN_TOKEN as bearer token.');
    this.#checkPage(incoming, session);
    return session.name;
  }

  /**
   * A ticket for one request of the session.
   * @throws Refusal unauthorized or cross_origin
   */
  ticket(c: OpsContext): string {
    checkIsPage(c.env.incoming);
    const { tickets } = this.#sessionOf(c, 'Sign in with a token of ADMIN_TOKEN.');
    const ticket = randomText(TICKET_BYTES);
    tickets.add(ticket);
    evictOldest(tickets, MAX_TICKETS);
    return ticket;
  }

  #sessionOf(c: OpsContext, remedy: string): Session {
    const session = this.find(c);
    if (session === undefined) throw refusal('unauthorized', remedy);
    return session;
  }

  /**
   * Another site can make a browser send a request with the cookie. It cannot send it as this page,
   * and cannot read a ticket. A request that was recorded cannot be sent again.
   */
  #checkPage(request: IncomingMessage, { tickets }: Session): void {
    if (isReading(request)) return void checkSameOrigin(request);
    checkIsPage(request);
    if (!tickets.delete(String(request.headers[TICKET_HEADER.toLowerCase()])))
      throw refusal('cross_origin', 'The request has no ticket, or one that was used.');
  }
}

/**
 * For requests that change something: another site can make a browser send them with its cookies.
 * Programs send neither header. Browsers send only `Origin` over HTTP in clear. @throws Refusal
 */
export function checkSameOrigin({ headers, socket }: IncomingMessage): void {
  const { origin, host, 'sec-fetch-site': site } = headers;
  const own = `${'encrypted' in socket ? 'https' : 'http'}://${host?.toLowerCase()}`;
  const isOwn =
    site === undefined ? origin === undefined || origin === own : site === 'same-origin';
  if (!isOwn) throw refusal('cross_origin', 'Only pages of this listener may send this request.');
}

/**
 * For requests that read: another page cannot see the response, but would take a place from a page
 * that can. The address bar (`none`) and links may lead here, frames and images may not.
 * @throws Refusal
 */
export function checkNotEmbedded(request: IncomingMessage): void {
  const { headers } = request;
  const isFollowed =
    headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document';
  if (headers['sec-fetch-site'] !== 'none' && !isFollowed) checkSameOrigin(request);
}

/** For requests that change something with a session: programs have none. @throws Refusal */
function checkIsPage(request: IncomingMessage): void {
  const { origin, 'sec-fetch-site': site } = request.headers;
  if (origin === undefined && site === undefined)
    throw refusal('cross_origin', 'A session is for the console: send a token instead.');
  checkSameOrigin(request);
}
