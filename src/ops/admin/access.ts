import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { type SignedIn, TICKET_HEADER } from '#console';
import type { AdminToken } from '../../options.ts';
import { bearerOf, checkIsPage, checkSameOrigin } from '../access.ts';
import { refusal } from '../errors.ts';
import { CsrfTokens, Sessions } from '../sessions.ts';
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
  readonly tokens: CsrfTokens;

  /** @param isSecure whether the listener speaks TLS */
  constructor(tokens: readonly AdminToken[], isSecure: boolean) {
    this.tokens = new CsrfTokens('ADMIN_TOKEN', tokens);
    this.sessions = new Sessions({ name: 'admin', durationMs: SESSION_MS, isSecure });
  }

  /**
   * The name of the caller's token.
   * @throws Refusal unauthorized, too_many or cross_origin
   */
  nameOf(c: OpsContext): string {
    const { incoming } = c.env;
    const token = bearerOf(incoming);
    if (token !== undefined) return this.tokens.check(token, incoming.socket.remoteAddress);
    const session = this.sessions.find(c);
    if (session === undefined)
      throw refusal('unauthorized', 'Send a token of ADMIN_TOKEN as bearer token.');
    this.#checkPage(incoming, session);
    return session.name;
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
