import type { IncomingMessage } from 'node:http';
import { Refusal } from './answers.ts';
import { Sessions } from './sessions.ts';

const BEARER = /^bearer +([^\s]+)$/i;
/** Names that only this machine answers to; a port may follow. */
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i;
/** RFC 3986 section 3.2.2, with a port: which characters, not where. */
const HOST = /^[\w.~!$&'()*+,;=%:[\]-]*$/;

/** Who may have what the ops listener has. */
export class Access {
  /** undefined: there is no OPS_TOKEN, and only this machine is listened to. */
  readonly sessions: Sessions | undefined;

  /** @param token undefined: none is asked for */
  constructor(token: string | undefined) {
    this.sessions = token === undefined ? undefined : new Sessions(token);
  }

  /**
   * A proxy may go by the other of two Host headers. Without a token, every page that a browser on
   * this machine opens could ask: by the name of its own host, made to lead here (DNS rebinding).
   * So it must be a name of this machine.
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
 * Of requests that do something: other sites have a browser send them too, with its cookies.
 * Programs send neither header; browsers in clear only the second. @throws Refusal
 */
export function checkSameOrigin({ headers }: IncomingMessage): void {
  const { origin, host, 'sec-fetch-site': site } = headers;
  const isOwn =
    site === undefined
      ? origin === undefined || hostOf(origin) === host?.toLowerCase()
      : site === 'same-origin';
  if (!isOwn) throw new Refusal(403, 'cross_origin', 'This is only for pages of this listener.');
}

/**
 * Of requests that read: another page sees no answer, but would take the place of one that does.
 * The address bar may lead here (`none`), a link of another page, too; frames and images may not.
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
