import type { StandinError } from './errors.ts';

/** The part of `fetch` that the client needs. Node, Deno, Bun and undici all have it. */
export type Fetch = (
  url: string,
  init: {
    method: string;
    headers: Record<string, string>;
    signal: AbortSignal;
    redirect: 'manual';
    body?: string;
  },
) => Promise<{
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  text(): Promise<string>;
}>;

/** Why the client sends a request again, and when. */
export interface Retry {
  readonly error: StandinError;
  readonly pauseMs: number;
}

export interface StandinOptions<Policy extends boolean = false> {
  /** Address of the service: `http://127.0.0.1:8080`, `https://gateway.example.com/standin`. */
  url: string;
  /**
   * An API key, or a JWT where the service accepts them. A function is called before each attempt:
   * it returns a JWT that has not expired.
   */
  apiKey: string | (() => string | Promise<string>);
  /**
   * The vault has a policy that names fields: the client sends records as they are, and the service
   * replaces what the policy names. Default: false.
   */
  policy?: Policy;
  /** Time for a call with all its attempts and requests. Default: 30,000. */
  timeoutMs?: number;
  /** Most values in one request; the client splits larger inputs. Default: 2,000. */
  maxValues?: number;
  /** Largest body of one request; the client splits larger inputs. Default: 900,000. */
  maxBytes?: number;
  /** Concurrent requests of one split call. Default: 4. */
  concurrency?: number;
  /** Replaces the global `fetch`, for example with undici's and a client certificate. */
  fetch?: Fetch;
  /** Called before each pause, for a log or a progress line. Must not throw. */
  onRetry?: (retry: Retry) => void;
}

export interface CallOptions {
  /** Ends the call at once. The call rejects with the reason of the signal. */
  signal?: AbortSignal;
  /** Overrides `timeoutMs` of the client. */
  timeoutMs?: number;
}

/** Makes detokenize leave out what it cannot restore. */
export interface LenientOptions<Leniently extends boolean = true> {
  /** Unknown tokens, and values that the client may not see, stay; `unapplied` lists them. */
  lenient?: Leniently;
}

/**
 * Options of a call that can replace some strings of a record, and keep everything else. One
 * signature for calls with and without `fields`: of several, the compiler would tell the faults of
 * the last one, and not underline the wrong path.
 */
export type FieldOptions<Field, Policy> = Policy extends true
  ? CallOptions
  : CallOptions & {
      /**
       * Paths of the strings: `email`, `customer.emails[*]`, `orders[0].to`, `["full name"]`. A
       * field that may be missing ends in `?`. In a list of records, the fields of each record.
       */
      fields?: readonly Field[];
    };

/** Checked options, complete with defaults. */
export type Settings = Readonly<Required<StandinOptions<boolean>>> & {
  readonly apiKey: () => string | Promise<string>;
};

/** The longest delay that setTimeout supports. */
const MAX_TIMEOUT_MS = 2_147_483_647;
const NUMBERS = {
  timeoutMs: { default: 30_000, max: MAX_TIMEOUT_MS },
  maxValues: { default: 2_000, max: 1_000_000 },
  maxBytes: { default: 900_000, max: 67_108_864 },
  concurrency: { default: 4, max: 64 },
};
const NAMES = ['url', 'apiKey', 'policy', 'fetch', 'onRetry', ...Object.keys(NUMBERS)];

/** @throws TypeError with the option and the remedy, never with the API key */
export function checkOptions(options: StandinOptions<boolean>): Settings {
  if (isBrowser()) throw new TypeError(IN_A_BROWSER);
  if (typeof options !== 'object' || options === null)
    throw new TypeError('options: must be an object with url and apiKey');
  const unknown = Object.keys(options).find((name) => !NAMES.includes(name));
  if (unknown !== undefined)
    throw new TypeError(`${unknown}: is not an option; the options are ${NAMES.join(', ')}`);
  const { policy = false, fetch: own = globalThis.fetch, onRetry = () => {}, apiKey } = options;
  if (typeof apiKey !== 'function') checkApiKey(apiKey);
  if (typeof policy !== 'boolean') throw new TypeError('policy: must be true or false');
  if (typeof own !== 'function')
    throw new TypeError('fetch: must be a function; pass one if the runtime has no fetch');
  if (typeof onRetry !== 'function') throw new TypeError('onRetry: must be a function');
  return {
    url: checkUrl(options.url),
    apiKey: typeof apiKey === 'function' ? apiKey : () => apiKey,
    policy,
    // The global fetch throws when it is called as a method of another object.
    fetch: (url, init) => own(url, init),
    onRetry,
    timeoutMs: checkNumber('timeoutMs', options.timeoutMs),
    maxValues: checkNumber('maxValues', options.maxValues),
    maxBytes: checkNumber('maxBytes', options.maxBytes),
    concurrency: checkNumber('concurrency', options.concurrency),
  };
}

/** @throws TypeError */
export function checkNumber(name: keyof typeof NUMBERS, given: number | undefined): number {
  const { default: otherwise, max } = NUMBERS[name];
  if (given === undefined) return otherwise;
  if (Number.isInteger(given) && given >= 1 && given <= max) return given;
  throw new TypeError(`${name}: must be a whole number from 1 to ${max}`);
}

function checkUrl(text: unknown): string {
  const url = typeof text === 'string' && URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw new TypeError('url: must be like http://127.0.0.1:8080 or https://standin.example.com');
  if (url.username !== '' || url.password !== '')
    throw new TypeError('url: must not contain a user or password; the API key goes in apiKey');
  if (url.search !== '' || url.hash !== '')
    throw new TypeError('url: must not contain a query or fragment');
  const base = url.pathname.replace(/\/+$/, '');
  if (/\/(?:api\/v1(?:\/\w+)?|health)$/.test(base))
    throw new TypeError('url: must be the base address; the client adds /api/v1 itself');
  return url.origin + base;
}

/**
 * The service, not the client, verifies check digits and signatures.
 * @throws TypeError without the text
 */
export function checkApiKey(text: unknown): string {
  if (typeof text === 'string' && /^(stk_[0-9A-Za-z]{34}|[\w-]+\.[\w-]+\.[\w-]+)$/.test(text))
    return text;
  if (text === undefined || text === '') throw new TypeError('apiKey: is missing');
  throw new TypeError(
    'apiKey: must be stk_ and 34 letters and digits, or a JWT, without spaces or line ends',
  );
}

export const IN_A_BROWSER =
  'standin/client is not for browsers: anyone who opens the page could read the API key and restore ' +
  'values with it. Use it in your backend, and let the page call the backend.';

/** False in Node, Deno and Bun, even with a simulated DOM such as jsdom. */
export function isBrowser(): boolean {
  const { window, document, Deno, Bun, process } = globalThis as Record<string, unknown> & {
    process?: { versions?: { node?: string } };
  };
  const isServer = Deno ?? Bun ?? process?.versions?.node;
  return window !== undefined && document !== undefined && isServer === undefined;
}
