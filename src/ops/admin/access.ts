import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { type SignedIn, TICKET_HEADER } from '#console';
import type { AdminToken } from '../../options.ts';
import { bearerOf, checkIsPage, checkSameOrigin } from '../access.ts';
import { refusal } from '../errors.ts';
import { Secret, Sessions, Tries } from '../sessions.ts';
import { isReading, type OpsContext } from '../web.ts';

/** A browser that is left open must not stay an administrator. */
const SESSION_MS = 3_600_000;
/** Tickets that a page has fetched and not used. One more ends the oldest. */
const MAX_TICKETS = 20;
const TICKET_BYTES = 24;

/** A signed-in administrator. */
interface AdminSession {
  readonly name: string;
  /** Each lets one request through. */
  readonly tickets: Set<string>;
}

/** Decides who may use the admin API: programs by their token, the console by its session. */
export class AdminAccess {
  readonly sessions: Sessions<AdminSession>;
  readonly #tokens: readonly { readonly name: string; readonly secret: Secret }[];
  readonly #tries = new Tries();

  /** @param isSecure whether the listener speaks TLS */
  constructor(tokens: readonly AdminToken[], isSecure: boolean) {
    this.#tokens = tokens.map(({ name, token }) => ({ name, secret: new Secret(token) }));
    this.sessions = new Sessions({ name: 'admin', durationMs: SESSION_MS, isSecure });
  }

  /**
   * The name of the caller's token.
   * @throws Refusal unauthorized, too_many or cross_origin
   */
  nameOf(c: OpsContext): string {
    const { incoming } = c.env;
    const token = bearerOf(incoming);
    if (token !== undefined) return this.check(token, incoming.socket.remoteAddress);
    const session = this.sessions.find(c);
    if (session === undefined)
      throw refusal('unauthorized', 'Send a token of ADMIN_TOKEN as bearer token.');
    this.#checkPage(incoming, session);
    return session.name;
  }

  /**
   * Only wrong tokens take an attempt, so that programs can send many requests. Without an attempt
   * left, the right token is refused, too: guessing faster gives nothing.
   * @throws as nameOf
   */
  check(token: string, address: string | undefined): string {
    if (!this.#tries.has(address))
      throw refusal('too_many', 'Too many wrong tokens from this address. Wait a second.');
    // All of them, so that the time tells nothing of which is right. People paste the name, too.
    const [found] = this.#tokens.filter(({ name, secret }) =>
      secret.equals(token.startsWith(`${name}:`) ? token.slice(name.length + 1) : token),
    );
    if (found !== undefined) return found.name;
    this.#tries.take(address);
    throw refusal('unauthorized', 'This is no ADMIN_TOKEN of this service.');
  }

  /** Begins a session. */
  begin(c: OpsContext, name: string): SignedIn {
    return this.sessions.begin(c, { name, tickets: new Set() });
  }

  /**
   * A ticket for one request of the session.
   * @throws Refusal unauthorized or cross_origin
   */
  ticket(c: OpsContext): string {
    checkIsPage(c.env.incoming);
    const session = this.sessions.find(c);
    if (session === undefined)
      throw refusal('unauthorized', 'Sign in with a token of ADMIN_TOKEN.');
    const { tickets } = session;
    if (tickets.size >= MAX_TICKETS) tickets.delete(tickets.keys().next().value!);
    const ticket = randomBytes(TICKET_BYTES).toString('base64url');
    tickets.add(ticket);
    return ticket;
  }

  /**
   * Another site can make a browser send a request with the cookie. It cannot send it as this page,
   * and cannot read a ticket. A request that was recorded cannot be sent again.
   */
  #checkPage(request: IncomingMessage, { tickets }: AdminSession): void {
    if (isReading(request)) return void checkSameOrigin(request);
    checkIsPage(request);
    if (!tickets.delete(String(request.headers[TICKET_HEADER.toLowerCase()])))
      throw refusal('cross_origin', 'The request has no ticket, or one that was used.');
  }
}
