import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, onTestFinished, test, vi } from 'vitest';
import { type CallOptions, Standin } from '../src/index.ts';
import type { Fetch, Retry } from '../src/options.ts';

const API_KEY = 'stk_0123456789ABCDEFGHIJKLMNOPQR1KnaxG';
/** A refusal that would pass if it were tried again comes with a wait that is too long. */
const answer = (status: number, body: object) => {
  const headers: Record<string, string> = [408, 429, 503].includes(status)
    ? { 'retry-after': '600' }
    : {};
  return new Response(JSON.stringify(body), { status, headers });
};
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
  ['a refusal of one, others silent', { fetch: turns(refused, silent), end: { status: 404 } }],
  ['a refusal of one, others pause', { fetch: turns(refused, limited), end: { status: 404 } }],
  ['its deadline', { fetch: silent, timeoutMs: 10, end: TIMEOUT }],
  ['its deadline, no API key', { fetch: right, apiKey: never, timeoutMs: 10, end: TIMEOUT }],
  ['an API key that is none', { fetch: right, apiKey: async () => 'no\nkey', end: NO_KEY }],
  ['an API key that does not come', { fetch: right, apiKey: away, end: { message: 'away' } }],
  ['a pause that is too long', { fetch: limited, timeoutMs: 1_000, end: { status: 429 } }],
  ['its signal, before', { fetch: right, abort: 'before', end: ABORTED }],
  ['its signal, without an answer', { fetch: silent, abort: 'meanwhile', end: ABORTED }],
  ['its signal, in a pause', { fetch: limited, abort: 'meanwhile', end: ABORTED }],
  ['its signal, at a retry', { fetch: limited, abort: 'at the retry', end: ABORTED }],
  ['its signal, no API key', { fetch: right, apiKey: never, abort: 'meanwhile', end: ABORTED }],
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

const clientOf = (fetch: Fetch) =>
  new Standin({ url: 'http://127.0.0.1:8080', apiKey: API_KEY, fetch });
const thrown = (asked: Promise<unknown>): Promise<any> => asked.catch((one) => one);
const PROXY =
  'this answer comes from a proxy or another server, not from Standin; is url the address of the service itself?';

test.each([
  `StandinError: tokenize: 400 bad_answer: ${PROXY}`,
  'UnauthorizedError: tokenize: 401 unauthorized: the API key is unknown, expired or revoked; issue another with standin api-key issue --client NAME',
  'ForbiddenError: tokenize: 403 forbidden: this client may not tokenize; an operator can allow it: standin client update CLIENT --can tokenize',
  'StandinError: tokenize: 404 not_found: is url the address of the service itself?',
  'UnavailableError: tokenize: 408 request_timeout',
  'StandinError: tokenize: 412 precondition_failed: the policy in force is not the one of If-Match; GET /api/v1/policy answers with its ETag: the vault has no policy; apply one, or leave out policy: true',
  'StandinError: tokenize: 413 payload_too_large: the body has more than 1024 bytes (BODY_LIMIT); send fewer values in a request: lower maxBytes, or raise BODY_LIMIT of the service',
  'LimitError: tokenize: 429 user_limit: the client exceeded a limit, and the wait is longer than timeoutMs; send less, or raise timeoutMs',
  'UnavailableError: tokenize: 500 internal_error',
  'UnavailableError: tokenize: 503 overloaded: the service is overloaded or draining',
])('%s: at once, with its facts and no others', async (text) => {
  const [, status, code, message] = /: (\d+) (\w+)(?:: (.*?))?(?:: the vault .*|: lower .*)?$/.exec(
    text,
  )!;
  const service = clientOf(async () => answer(Number(status), { error: code, message }));
  const { detail, ...facts } = await thrown(service.tokenizeValues(['a']));
  const wait = status === '429' ? { retryAfterMs: 600_000 } : {};
  expect(facts).toEqual({ status: Number(status), code, attempts: 1, ...wait });
  expect(String(await thrown(service.tokenizeValues(['a'])))).toBe(text);
});

test('without an answer, the reason is a code or a name of the error, and no other text', async () => {
  for (const [detail, failure] of [
    ['EPIPE', { cause: { code: 'EPIPE' }, code: 'OTHER', name: 'TypeError' }],
    ['SyntaxError', { cause: { code: 'Ann Lee' }, name: 'SyntaxError' }],
    ['bad port', { cause: { message: 'bad port' }, name: 'TypeError' }],
    ['no reason given', undefined],
  ]) {
    const error = await thrown(clientOf(() => Promise.reject(failure)).health());
    expect({ ...error }).toEqual({ code: 'network_error', attempts: 1, detail });
  }
  for (const code of 'CERT_HAS_EXPIRED SELF_SIGNED UNABLE_TO_GET_ISSUER ERR_TLS_X'.split(' ')) {
    const untrusted = clientOf(() => Promise.reject({ cause: { code } }));
    expect(await thrown(untrusted.tokenizeValues(['a']))).toMatchObject({ attempts: 1 });
  }
});

test('a health of ok or error is told, as the service says it', async () => {
  const of = { timestamp: '2026-01-02T03:04:05Z', postgres: 'up', version: '1.0.4' };
  for (const health of [
    { status: 'ok', ...of },
    { status: 'error', ...of },
  ])
    expect(await clientOf(async () => Response.json(health)).health()).toEqual(health);
});

const ASKED: Readonly<Record<string, (client: Standin) => Promise<unknown>>> = {
  health: (client) => client.health(),
  policy: (client) => client.policyInForce(),
  tokenize: (client) => client.tokenize(['x']),
  detokenize: (client) => client.detokenize({ a: 'x' }, { lenient: true }),
  'text/tokenize': (client) => client.tokenizeText('x', []),
  'text/detokenize': (client) => client.detokenizeText('x'),
};
test.each([
  'health {"status":"up"} null 5 no-JSON',
  'tokenize {} {"data":{"values":[null]}} {"data":{"values":[5]}}',
  'policy {"version":"1","fields":[]} {"version":1} {"version":1,"fields":[null]} {"version":1,"fields":[{"path":1,"kind":"a"}]} {"version":1,"fields":[{"path":"a"}]}',
  'detokenize {} [null] [{"path":1,"reason":"unknown"}] [{"path":"x","reason":"unknown"}] [{"path":"data.values[0]","reason":"other"}]',
  'text/tokenize {"data":{"text":"x"}} {"data":{"text":"x","spans":[],"conversation":1}}',
  'text/detokenize {} [{}] [{"path":"x","reason":"unknown"}] [{"path":"data.text[9:1]","reason":"unknown"}] [{"path":"data.text[0:9]","reason":"unknown"}] [{"path":"data.text[0:1]","reason":"other"}]',
])('each of these answers is refused as one of another structure: %s', async (row) => {
  const [operation, ...texts] = row.split(' ');
  for (const text of texts) {
    const left = `{"data":{"values":["x"],"text":"x"},"unapplied":${text}}`;
    const body = operation!.endsWith('detokenize') ? left : text;
    const headers = { etag: 'a', 'x-request-id': 'r' };
    const error = await thrown(
      ASKED[operation!]!(clientOf(async () => new Response(body, { headers }))),
    );
    const facts = { status: 200, code: 'bad_answer', attempts: 1, requestId: 'r' };
    expect([text, { ...error }]).toEqual([text, facts]);
    expect(error.message).toBe(`${operation}: the answer does not match the request: ${PROXY}`);
  }
});

test('a policy without its tag, and a fault without its place', async () => {
  const untagged = clientOf(async () => answer(200, { version: 1, fields: [] }));
  expect(await thrown(untagged.policyInForce())).toMatchObject({ code: 'bad_answer' });
  const unclear = clientOf(async () => answer(400, { error: 'invalid_type', message: 'Ann' }));
  const { message } = await thrown(unclear.tokenizeValues(['a']));
  expect(message).toBe('data: is not acceptable');
  // Half of a pair, no offset, nothing, beyond the end.
  for (const [start, end] of [
    [1, 6],
    [0.5, 6],
    [3, 3],
    [3, 7],
  ] as const) {
    const spans = [
      { start: 0, end: 6 },
      { start, end },
    ].map((one) => ({ ...one, kind: 'k' }));
    const { message } = await thrown(clientOf(right).tokenizeText('👋 Ann', spans));
    expect(message).toContain('data.spans[1]: start must be below end, end at most 6, and');
  }
});

test('what a request has: the key but for /health, no redirect, and what its call says', async () => {
  const [sent, redirects] = [[] as unknown[], new Set<string>()];
  const data = { values: ['t'], a: 't', text: 't', rest: 'r', spans: [] };
  const body = JSON.stringify({ status: 'ok', version: 1, fields: [], data });
  const fetch: Fetch = async (url, { method, headers, body: asked, redirect }) => {
    sent.push([method, new URL(url).pathname, headers, asked && JSON.parse(asked).data]);
    redirects.add(redirect);
    return new Response(body, { headers: { etag: 'a' } });
  };
  const client = clientOf(fetch);
  const records = new Standin({ url: 'http://127.0.0.1', apiKey: API_KEY, policy: true, fetch });
  const named = { only: ['x'], conversation: 'c' };
  const found = { conversation: 'c', words: { y: 'k' }, detect: true };
  await client.health();
  await client.policyInForce();
  await client.tokenize({ a: 'x' });
  await records.detokenize({ a: 'x' }, { lenient: true });
  await client.tokenizeText('x', [{ start: 0, end: 1, kind: 'k' }], found);
  await client.detokenizeText('x', named);
  for await (const _ of client.detokenizeStream(['x'], named));
  const json = { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' };
  const ofRecords = { ...json, 'if-match': '*', prefer: 'handling=lenient' };
  const text = ['POST', '/api/v1/text/detokenize', json];
  expect(sent).toEqual([
    ['GET', '/health', {}, undefined],
    ['GET', '/api/v1/policy', json, undefined],
    ['POST', '/api/v1/tokenize', json, { values: ['x'] }],
    ['POST', '/api/v1/detokenize', ofRecords, { a: 'x' }],
    ['POST', '/api/v1/text/tokenize', json, expect.objectContaining({ text: 'x', ...found })],
    ...[{ text: 'x' }, { text: 'x', more: true }, { text: 'r' }].map((one) => [
      ...text,
      { ...one, ...named },
    ]),
  ]);
  expect([...redirects]).toEqual(['manual']);
});

test('an attempt has 10 s, or a third of a longer call, whose time-out says the last failure', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  vi.spyOn(Math, 'random').mockReturnValue(0);
  onTestFinished(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });
  for (const timeoutMs of [20_000, 60_000]) {
    const failed = thrown(clientOf(silent).tokenizeValues(['a'], { timeoutMs }));
    await vi.advanceTimersByTimeAsync(60_000);
    expect(String(await failed)).toBe(
      `TimeoutError: tokenize: no answer within ${timeoutMs} ms; last failure: tokenize: no answer from the service (ETIMEDOUT); is url right, and is the service running?`,
    );
    const attempts = timeoutMs === 20_000 ? 2 : 3;
    expect(await failed).toMatchObject({ code: 'timeout', attempts, detail: 'ETIMEDOUT' });
  }
});

test('the longest pause before a retry doubles, from 100 ms to 5 s; no other Retry-After than seconds counts', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(0.01);
  onTestFinished(() => void vi.restoreAllMocks());
  const pauses: number[] = [];
  const waits = ['', '-5', '1e999', 'Sat, 01 Jan 2050', '0', 'x', '', ''];
  const busy: Fetch = async (...given) => {
    const headers = { 'retry-after': waits.pop()! };
    return headers['retry-after'] === undefined
      ? right(...given)
      : new Response('{"error":"overloaded"}', { status: 503, headers });
  };
  const onRetry = ({ pauseMs }: Retry) => pauses.push(Math.round(pauseMs * 100));
  const client = new Standin({
    url: 'http://127.0.0.1:8080',
    apiKey: API_KEY,
    fetch: busy,
    onRetry,
  });
  await client.tokenizeValues(['a']);
  expect(pauses).toEqual([100, 200, 400, 800, 1600, 3200, 5000, 5000]);
});
