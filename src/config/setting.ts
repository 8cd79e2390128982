import { MAX_RATE } from '../client-settings.ts';
import { type AdminToken, LOOPBACK } from '../options.ts';

/** `docs/configuration.md` has its meaning. */
export interface Setting<T, D extends string | undefined = string | undefined> {
  /** As written in the environment; undefined: not set. */
  readonly default: D;
  /** The accepted values, in words. */
  readonly accepts: string;
  /** Returns undefined for a text that is not acceptable. */
  readonly parse: (text: string) => T | undefined;
  /** Whether the value can contain a secret. Then no message and no list shows it. */
  readonly isSecret: boolean;
}

/** The parsed values of settings; undefined only for a setting without a default. */
export type ValuesOf<S extends Record<string, Setting<unknown>>> = {
  readonly [Name in keyof S]: S[Name] extends Setting<infer T, infer D>
    ? T | (D extends string ? never : undefined)
    : never;
};

export function setting<T, const D extends string | undefined>(
  fallback: D,
  accepts: string,
  parse: Setting<T>['parse'],
): Setting<T, D> {
  return { default: fallback, accepts, parse, isSecret: false };
}

/** A setting that can contain a secret, for example a URL with a password. */
export function secret<T, D extends string | undefined>(one: Setting<T, D>): Setting<T, D> {
  return { ...one, isSecret: true };
}

export function matching<const D extends string | undefined>(
  fallback: D,
  accepts: string,
  pattern: RegExp,
) {
  return setting(fallback, accepts, (text) => (pattern.test(text) ? text : undefined));
}

export function whole<const D extends string | undefined>(fallback: D, min: number, max: number) {
  return setting(fallback, `${min} to ${max}`, (text) => {
    const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    return number >= min && number <= max ? number : undefined;
  });
}

export function choice<const T extends string>(fallback: NoInfer<T>, ...choices: readonly T[]) {
  const accepts = `${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}`;
  return setting(fallback as string, accepts, (text) => choices.find((one) => one === text));
}

export const text = (text: string): string => text;
export const file = setting(undefined, 'a file', text);
// Not a look-up in an object, which would find `constructor`.
export const flag = setting('false', 'true or false', (text) =>
  text === 'true' ? true : text === 'false' ? false : undefined,
);

/** A URL to which this process sends secrets. Its path may be secret. */
export function url<const D extends string | undefined>(fallback: D) {
  return secret(setting(fallback, 'an https:// URL; http:// on the loopback only', httpsUrl));
}

/** A setting that is not acceptable has the value undefined and a problem under its name. */
export function parseSettings<S extends Record<string, Setting<unknown>>>(
  settings: S,
  environment: NodeJS.Dict<string>,
): { values: ValuesOf<S>; problems: Map<string, string> } {
  const values: Record<string, unknown> = {};
  const problems = new Map<string, string>();
  for (const [name, { default: fallback, accepts, parse, isSecret }] of Object.entries(settings)) {
    // Shells and compose files pass an empty variable to say "not set".
    const written = environment[name] || fallback;
    values[name] = written === undefined ? undefined : parse(written);
    if (written !== undefined && values[name] === undefined) {
      const shown = isSecret ? 'is not' : `is "${written}"; it must be`;
      problems.set(name, `${name} ${shown} ${accepts}.`);
    }
  }
  return { values: values as ValuesOf<S>, problems };
}

/** Problems in words that name their settings, each with whether it is there. */
export type Contradictions = Readonly<Record<string, boolean>>;

/** The problems that are there. A refused setting seems not set, so none that names it counts. */
export function problemsIn(
  contradictions: Contradictions,
  refused: ReadonlyMap<string, string>,
): string[] {
  const isOfRefused = (words: string) =>
    [...refused.keys()].some((name) => new RegExp(`\\b${name}\\b`).test(words));
  return Object.keys(contradictions).filter(
    (words) => contradictions[words] && !isOfRefused(words),
  );
}

/** The check of two settings that need each other. */
export function together<V extends object>(
  values: V,
  a: keyof V & string,
  b: keyof V & string,
): Contradictions {
  const words = `${a} and ${b} go together: set both or none.`;
  return { [words]: (values[a] === undefined) !== (values[b] === undefined) };
}

/** The checks of settings that do nothing without another one. */
export function alone<V extends object>(
  values: V,
  needed: keyof V & string,
  ...names: readonly (keyof V & string)[]
): Contradictions {
  const checks = names.map((name) => [
    `${name} is set, but ${needed} is not: ${name} alone does nothing. Set both or none.`,
    values[name] !== undefined && values[needed] === undefined,
  ]);
  return Object.fromEntries(checks);
}

const ADMIN_TOKEN = /^([\w.-]{1,32}):([\w.~+/=-]{32,1024})$/;
const MAX_ADMIN_TOKENS = 32;

/** Different names with different tokens, which come into no log. */
export function adminTokens(text: string): readonly AdminToken[] | undefined {
  const found = text.split(',').map((one) => ADMIN_TOKEN.exec(one));
  const tokens = found.flatMap((one) => (one === null ? [] : [{ name: one[1]!, token: one[2]! }]));
  const names = new Set(tokens.map(({ name }) => name));
  const secrets = new Set(tokens.map(({ token }) => token));
  const isFit = Math.min(names.size, secrets.size) === found.length;
  return isFit && found.length <= MAX_ADMIN_TOKENS ? tokens : undefined;
}

/** Requests a second: 0, or from 0.001 (one in about a quarter of an hour) to a million. */
export function parseRate(text: string): number | undefined {
  const rate = /^\d{1,7}(\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN;
  return rate <= MAX_RATE ? rate : undefined;
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
  const isFit = protocol === 'https:' || (protocol === 'http:' && LOOPBACK.test(hostname));
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

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** `name=value` pairs with commas; values in percent encoding (W3C Baggage). */
const PAIRS = /^([!#$%&'*+.^`|~\w-]+)=([\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*)$/;
const MAX_PAIRS = 64;

export function pairs(text: string): Readonly<Record<string, string>> | undefined {
  const found = text.split(',').map((pair) => PAIRS.exec(pair.trim()));
  if (found.length > MAX_PAIRS) return undefined;
  try {
    return Object.fromEntries(
      found.map((pair) => [pair![1]!, decodeURIComponent(pair![2]!)] as const),
    );
  } catch {
    return undefined;
  }
}
