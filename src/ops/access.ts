import type { IncomingMessage } from 'node:http';
import { BEARER } from '../access/authenticator.ts';
import { isWellFormed } from '../public/guards.ts';
import { refusal } from './errors.ts';
import { CsrfTokens, Sessions } from './sessions.ts';
import type { OpsContext } from './web.ts';

/** Loopback names, with an optional port. */
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i;
const SESSION_MS = 12 * 3_600_000;

/** The token of a request; undefined: it has none. */
export function bearerOf({ headers }: IncomingMessage): string | undefined {
  return BEARER.exec(headers.authorization ?? '')?.[1];
}

/** Decides which requests the ops listener answers. */
export class Access {
  /** undefined: OPS_TOKEN is not set, and the listener accepts only this machine. */
  readonly sessions: Sessions<true> | undefined;
  readonly tokens: CsrfTokens | undefined;

  /**
   * @param token OPS_TOKEN; undefined: no sign-in
   * @param isSecure whether the listener speaks TLS
   */
  constructor(token: string | undefined, isSecure = false) {
    if (token === undefined) return;
    this.tokens = new CsrfTokens('OPS_TOKEN', [{ name: '', token }]);
    this.sessions = new Sessions({ name: 'console', durationMs: SESSION_MS, isSecure });
  }

  /**
   * Refuses two Host headers, because a proxy may use the other one. Without a token, the name must
   * also be a loopback name. Otherwise any page in a browser on this machine could read this
   * listener, by pointing the name of its own host here (DNS rebinding).
   * @throws Refusal
   */
  checkHost(request: IncomingMessage): void {
    if (this.sessions === undefined && !LOOPBACK.test(request.headers.host ?? '')) {
      throw refusal(
        'misdirected',
        'Without OPS_TOKEN this listener answers only to localhost, 127.0.0.1 and [::1] in the Host header. Use one of them, or set OPS_TOKEN.',
      );
    }
    if (!isWellFormed(request)) {
      throw refusal('bad_request', 'Send one Host header with a name and a port.');
    }
  }

  isAllowed(c: OpsContext): boolean {
    if (this.sessions === undefined || this.sessions.find(c)) return true;
    const token = bearerOf(c.env.incoming);
    return token !== undefined && this.tokens?.nameOf(token) !== undefined;
  }

  /** @throws Refusal */
  checkAllowed(c: OpsContext): void {
    if (!this.isAllowed(c))
      throw refusal('unauthorized', 'Send the OPS_TOKEN as a bearer token, or sign in.');
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

/** For requests that change something with a session: programs have none. @throws Refusal */
export function checkIsPage(request: IncomingMessage): void {
  const { origin, 'sec-fetch-site': site } = request.headers;
  if (origin === undefined && site === undefined)
    throw refusal('cross_origin', 'A session is for the console: send a token instead.');
  checkSameOrigin(request);
}
