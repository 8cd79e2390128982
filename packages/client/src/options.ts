import { IN_A_BROWSER, isBrowser } from './surroundings.ts';

/** What the client needs of `fetch`: that of Node, Deno and Bun does, and that of undici. */
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

export interface StandinOptions {
  /** Of the service: `http://127.0.0.1:8080`. */
  url: string;
  apiKey: string;
  /** How long a call may take, all its attempts and requests included; 30,000. */
  timeoutMs?: number;
  /** Values in one request; larger inputs are split; 2,000. */
  maxValues?: number;
  /** Bytes of the body of one request; larger inputs are split; 900,000. */
  maxBytes?: number;
  /** Requests at once of one call that is split; 4. */
  concurrency?: number;
  /** Instead of the global `fetch`: undici's with a client certificate, for example. */
  fetch?: Fetch;
}

export interface CallOptions {
  /** Ends the call at once; it rejects with the reason of the signal. */
  signal?: AbortSignal;
  /** Instead of that of the client. */
  timeoutMs?: number;
}

/** Options that were checked, and those that were not given. */
export type Settings = Readonly<Required<StandinOptions>>;

/** The longest time that timers take. */
const MAX_TIMEOUT_MS = 2_147_483_647;
const NUMBERS = {
  timeoutMs: { default: 30_000, max: MAX_TIMEOUT_MS },
  maxValues: { default: 2_000, max: 1_000_000 },
  maxBytes: { default: 900_000, max: 67_108_864 },
  concurrency: { default: 4, max: 64 },
};
const NAMES = ['url', 'apiKey', 'fetch', ...Object.keys(NUMBERS)];

/** @throws TypeError that names the option and the remedy, and has no API key in it */
export function checkOptions(options: StandinOptions): Settings {
  if (isBrowser()) throw new TypeError(IN_A_BROWSER);
  if (typeof options !== 'object' || options === null)
    throw new TypeError('options: must be an object with url and apiKey');
  const unknown = Object.keys(options).find((name) => !NAMES.includes(name));
  if (unknown !== undefined)
    throw new TypeError(`${unknown}: is no option; there are ${NAMES.join(', ')}`);
  const { fetch: own = globalThis.fetch } = options;
  if (typeof own !== 'function')
    throw new TypeError('fetch: must be a function; give one where the runtime has none');
  return {
    url: checkUrl(options.url),
    apiKey: checkApiKey(options.apiKey),
    // Called without a receiver, as the global one wants it.
    fetch: (url, init) => own(url, init),
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
    throw new TypeError('url: must be without user and password; the API key goes in apiKey');
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '')
    throw new TypeError('url: must end after host and port; the client adds the path itself');
  return url.origin;
}

/** Its check digits are left to the service. */
function checkApiKey(text: unknown): string {
  if (typeof text === 'string' && /^stk_[0-9A-Za-z]{34}$/.test(text)) return text;
  if (text === undefined || text === '') throw new TypeError('apiKey: is missing');
  throw new TypeError(
    'apiKey: must be stk_ and 34 letters and digits, without spaces or line ends',
  );
}
