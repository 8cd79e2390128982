import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, onTestFinished, test, vi } from 'vitest';
import { type CallOptions, Standin } from '../src/index.ts';
import type { Fetch, Retry } from '../src/options.ts';

const API_KEY = 'stk_0123456789ABCDEFGHIJKLMNOPQR1KnaxG';
const answer = (status: number, body: object) =>
  new Response(JSON.stringify(body), { status, headers: { 'retry-after': '600' } });
const right: Fetch = async (_, { body }) => {
  const { values } = JSON.parse(body!).data;
  return answer(200, { data: { values: values.map((one: string) => `${one}_tok`) } });
};
const limited: Fetch = async () => answer(429, { error: 'user_limit', retry_after: 600 });
const refused: Fetch = async () => answer(404, { error: 'not_found' });
let open = 0;
const silent: Fetch = (_, { signal }) =>
  new Promise((_, reject) => {
    open++;
    signal.addEventListener('abort', () => {
      open--;
      reject(signal.reason);
    });
  });
/** The first request is answered by one, all others by another. */
const turns = (first: Fetch, others: Fetch): Fetch => {
  let requests = 0;
  return (...given) => (requests++ === 0 ? first : others)(...given);
};
const never = () => new Promise<string>(() => {});
const away = () => Promise.reject(new Error('away'));
const tick = () => new Promise((resolve) => setImmediate(resolve));

/** How a call goes, and how it ends; `abort`: when its signal is aborted. */
interface Way {
  readonly fetch: Fetch;
  readonly apiKey?: () => Promise<string>;
  readonly timeoutMs?: number;
  readonly abort?: 'before' | 'meanwhile' | 'at the retry';
  readonly end: unknown;
}

const NO_KEY = {
  name: 'TypeError',
  message: expect.stringMatching(/^apiKey: must be .* or a JWT/),
};
const ABORTED = { name: 'AbortError' };
const TIMEOUT = { name: 'TimeoutError' };

/** Makes a call of five requests, three at once. */
async function made({ fetch, apiKey, abort, timeoutMs = 1_000_000 }: Way) {
  const retries: Retry[] = [];
  const controller = new AbortController();
  const { signal } = controller;
  let requests = 0;
  const client = new Standin({
    ...{ url: 'http://127.0.0.1:8080', apiKey: apiKey ?? API_KEY, maxValues: 1, concurrency: 3 },
    fetch: (url, init) => {
      requests++;
      return fetch(url, init);
    },
    onRetry: (retry) => {
      retries.push(retry);
      if (abort === 'at the retry') controller.abort();
    },
  });
  const options: CallOptions = { signal, timeoutMs };
  if (abort === 'before') controller.abort();
  const pending = client.tokenizeValues(['a', 'b', 'c', 'd', 'e'], options).catch((one) => one);
  await tick();
  if (abort === 'meanwhile') controller.abort();
  return { end: await pending, told: () => [requests, retries.length] };
}

test.each<[string, Way]>([
  ['a success', { fetch: right, end: ['a_tok', 'b_tok', 'c_tok', 'd_tok', 'e_tok'] }],
  ['a refusal', { fetch: refused, end: { status: 404 } }],
  [
    'a refusal of one, while others have no answer',
    { fetch: turns(refused, silent), end: { status: 404 } },
  ],
  [
    'a refusal of one, while others pause',
    { fetch: turns(refused, limited), end: { status: 404 } },
  ],
  ['its deadline', { fetch: silent, timeoutMs: 10, end: TIMEOUT }],
  [
    'its deadline, while no API key comes',
    { fetch: right, apiKey: never, timeoutMs: 10, end: TIMEOUT },
  ],
  ['an API key that is none', { fetch: right, apiKey: async () => 'no\nkey', end: NO_KEY }],
  ['an API key that does not come', { fetch: right, apiKey: away, end: { message: 'away' } }],
  ['a pause that is too long', { fetch: limited, timeoutMs: 1_000, end: { status: 429 } }],
  ['its signal, before', { fetch: right, abort: 'before', end: ABORTED }],
  ['its signal, without an answer', { fetch: silent, abort: 'meanwhile', end: ABORTED }],
  ['its signal, in a pause', { fetch: limited, abort: 'meanwhile', end: ABORTED }],
  ['its signal, at a retry', { fetch: limited, abort: 'at the retry', end: ABORTED }],
  [
    'its signal, while no API key comes',
    { fetch: right, apiKey: never, abort: 'meanwhile', end: ABORTED },
  ],
])('a call that ends by %s leaves no timer, no request and no retry', async (_, way) => {
  const timers = vi.spyOn(globalThis, 'setTimeout');
  const cleared = vi.spyOn(globalThis, 'clearTimeout');
  onTestFinished(() => void vi.restoreAllMocks());
  const { end, told } = await made(way);
  expect(end).toMatchObject(way.end as object);
  const before = told();
  for (let i = 0; i < 10; i++) await tick();
  expect([told(), open]).toEqual([before, 0]);
  const left = new Set(timers.mock.results.map(({ value }) => value));
  for (const [one] of cleared.mock.calls) left.delete(one);
  // Of the deadline.
  const fired = timers.mock.results.filter((_, i) => timers.mock.calls[i]![1] === 10);
  for (const { value } of fired) left.delete(value);
  expect(left.size).toBe(0);
});

test('one signal ends many calls with its reason, and the runtime sees no leak', async () => {
  const warnings: Error[] = [];
  const warn = (warning: Error) => warnings.push(warning);
  process.on('warning', warn);
  onTestFinished(() => void process.off('warning', warn));
  const controller = new AbortController();
  const options = { url: 'http://127.0.0.1:8080', apiKey: API_KEY, maxValues: 1, concurrency: 15 };
  const client = new Standin({ ...options, fetch: silent });
  const values = Array.from({ length: 20 }, (_, i) => `Value no ${i}`);
  const calls = Array.from({ length: 15 }, () =>
    client.tokenizeValues(values, { signal: controller.signal }).catch((reason) => reason),
  );
  await tick();
  expect(open).toBe(15 * 15);
  controller.abort('shutdown');
  expect(new Set(await Promise.all(calls))).toEqual(new Set(['shutdown']));
  await tick();
  expect([open, warnings]).toEqual([0, []]);
});

test('a signal that lives on keeps nothing of the calls that had it', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const { signal } = new AbortController();
  const call = async () => {
    const fetch: Fetch = (...given) => right(...given);
    const client = new Standin({ url: 'http://127.0.0.1:8080', apiKey: API_KEY, fetch });
    await client.tokenizeValues(['a'], { signal });
    return new WeakRef(fetch);
  };
  await call();
  const kept = await call();
  for (let i = 0; i < 20 && kept.deref() !== undefined; i++) {
    await tick();
    collect();
  }
  expect(kept.deref()).toBeUndefined();
  expect(signal.aborted).toBe(false);
});
