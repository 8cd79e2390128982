import { databaseHosts } from '../store/hosts.ts';

/**
 * Parsers of settings. Each takes the text from the environment and returns undefined when the text
 * is not acceptable.
 */
export const text = (text: string): string => text;
export const matching = (pattern: RegExp) => (text: string) =>
  pattern.test(text) ? text : undefined;
export const oneOf =
  <T extends string>(...choices: readonly T[]) =>
  (text: string): T | undefined =>
    choices.find((choice) => choice === text);
export const whole = (min: number, max: number) => (text: string) => {
  const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  return number >= min && number <= max ? number : undefined;
};
// Not a look-up in an object, which would find `constructor`.
export const flag = (text: string): boolean | undefined =>
  text === 'true' ? true : text === 'false' ? false : undefined;

/** Requests a second: 0, or from 0.001 (one in about a quarter of an hour) to a million. */
export function parseRate(text: string): number | undefined {
  const rate = /^\d{1,7}(\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN;
  return rate <= 1_000_000 ? rate : undefined;
}

export function databaseUrl(text: string): string | undefined {
  return databaseHosts(text) && text;
}

/** Checks everything that the client library parses, so that nothing fails later. */
export function redisUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const { protocol, hostname, pathname, username, password } = new URL(text);
  const decodable = isDecodable(username) && isDecodable(password);
  const isFit = /^rediss?:$/.test(protocol) && hostname !== '' && /^(\/\d{0,5})?$/.test(pathname);
  return isFit && decodable ? text : undefined;
}

/** `https://`, or `http://` on the loopback only. No user, no password, no query. */
export function httpsUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const { protocol, hostname, username, password, search, hash } = new URL(text);
  const isLoopback = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
  const isFit = protocol === 'https:' || (protocol === 'http:' && isLoopback);
  return isFit && username + password + search + hash === '' ? text : undefined;
}

/** `http://` or `https://` with a host, and perhaps a path before `/api/v1`. */
export function httpBase(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) return undefined;
  const base = `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
  const hasMore = url.href.replace(/\/+$/, '') !== base || /\/(api\/v1|health)$/.test(base);
  return hasMore ? undefined : base;
}

/** Names separated by slashes, such as a mount or a namespace. */
export function path(text: string): string | undefined {
  const isFit = /^[\w.-]{1,128}(\/[\w.-]{1,128}){0,9}$/.test(text);
  return isFit && !/(^|\/)\.{1,2}(\/|$)/.test(text) ? text : undefined;
}

/** Text that needs no escaping in a header. */
export function credential(text: string): string | undefined {
  return /^[\x21-\x7e]{1,8192}$/.test(text) ? text : undefined;
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}
