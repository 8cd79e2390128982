import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { METHODS } from '../../src/public/schema.ts';
import { ADMIN_TOKEN, admin } from '../support/admin.ts';
import { send } from '../support/http.ts';
import { bearer, startWithOps } from '../support/ops.ts';
import { inForce } from '../support/policy.ts';
import { Random } from '../support/random.ts';
import { served } from '../support/served.ts';
import { type Answer, call, insist, runCli, usualPlace } from '../support/service.ts';

const POLICY = `
version: 1
kinds:
  short: { shape: word, length: 5 }
  middle: { shape: word, length: 6 }
  person: { shape: word, length: 8 }
fields: { "records[*].n": text }
elsewhere: tokenize
rights:
  "*": { "*": full }
${Array.from({ length: 200 }, (_, i) => `  masked-${i}: { "*": masked }\n  hidden-${i}: { person: full }`).join('\n')}
`;
/** Unknown tokens of a minute: the default. */
const BUDGET = 60;
const MOST = 3_000;

interface Sent {
  readonly path: string;
  readonly data: unknown;
  /** How many guesses it has. */
  readonly guesses: number;
  readonly headers?: Record<string, string>;
  /** Name of the client in the rights. */
  readonly right?: string;
}

const LENIENT = { prefer: 'handling=lenient' };
const DETOKENIZE = '/api/v1/detokenize';
const TEXT = '/api/v1/text/detokenize';

type Form = (guesses: readonly string[], path: string) => Sent;
const form =
  (dataOf: (guesses: readonly string[]) => unknown, rest: Partial<Sent> = {}): Form =>
  (guesses, path) => ({ path, data: dataOf(guesses), guesses: guesses.length, ...rest });
const values = (rest?: Partial<Sent>) => form((guesses) => ({ values: guesses }), rest);
const records = (rest?: Partial<Sent>) =>
  form((guesses) => ({ records: guesses.map((n) => ({ n })) }), rest);
const text = (rest: Partial<Sent> = {}, more = {}) =>
  form((guesses) => ({ text: guesses.join(' '), ...more }), rest);

/** In how many ways a request can have guesses of tokens, by route. */
const FORMS: Readonly<Record<string, Readonly<Record<string, Form>>>> = {
  [DETOKENIZE]: {
    strict: values(),
    'strict records': records(),
    lenient: values({ headers: LENIENT }),
    'lenient records': records({ headers: LENIENT }),
    'lenient, masked': values({ headers: LENIENT, right: 'masked' }),
    'lenient, no right': records({ headers: LENIENT, right: 'hidden' }),
    'strict, no right': values({ right: 'hidden' }),
    'lenient, If-Match': values({ headers: { ...LENIENT, 'if-match': '*' } }),
  },
  [TEXT]: {
    text: text(),
    'text that goes on': text({}, { more: true }),
    'text, no right': text({ right: 'hidden' }),
    'three candidates at each place': (guesses, path) => {
      const letters = guesses.map((_, i) => `${lettersOf(i)}_tok`);
      return { ...text()(letters, path), guesses: 3 * guesses.length };
    },
  },
};

/** Eight letters, other ones at each call. */
let words = 0;
function lettersOf(i: number): string {
  const number = String(words++ * 10_000 + i).padStart(12, '0');
  return [...number]
    .map((digit) => String.fromCharCode(97 + Number(digit)))
    .join('')
    .slice(-8);
}

/** How many of its guesses a response has told: whether each is a token. */
function learnt({ guesses, path }: Sent, { status, body }: Answer): number {
  if (status === 200 || status === 403) return guesses;
  if (status !== 400 || path === TEXT) return 0;
  expect(body.message).toMatch(/\[\d+\](\.n)?: is not a known token$/);
  return Number(/\d+/.exec(body.message)) + 1;
}

let right: string[];
const service = served(async () => {
  const limits = { RATE_LIMIT: '0', DETOKENIZE_LIMIT: '0', UNKNOWN_TOKEN_LIMIT: '1' };
  return startWithOps(await usualPlace(), { ...limits, ADMIN_TOKEN: `test:${ADMIN_TOKEN}` });
});
beforeAll(async () => {
  writeFileSync(join(service.place.folder, 'policy.yaml'), POLICY);
  const applied = await runCli(['policy', 'apply', 'policy.yaml', '--yes'], service.place);
  expect(applied.code, applied.stderr).toBe(0);
  await inForce(service, 1);
  const all = Array.from({ length: MOST / 5 }, (_, i) => sixDigits(i));
  right = (await call(service, 'tokenize', { values: all })).body.data.values;
});

const sixDigits = (number: number) => String(number).padStart(6, '0');

let clients = 0;
/** The API key of a new client with the default budget. */
async function newClient(name = 'guesser', settings: object = {}): Promise<string> {
  const path = `/clients/${name}-${clients++}`;
  const made = await admin(service.opsUrl, 'PUT', path, settings);
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  return (await admin(service.opsUrl, 'POST', `${path}/api-keys`, {})).body.api_key;
}

/** A busy machine sheds some requests: a guesser sends them again. */
function post({ path, data, headers }: Sent, apiKey: string): Promise<Answer> {
  return insist(async () => {
    const all = { authorization: `Bearer ${apiKey}`, ...headers };
    const answer = await send(service, path, JSON.stringify({ data }), all);
    return { ...answer, body: JSON.parse(answer.text) };
  }, [503]);
}

const random = new Random();
/** Distinct guesses, one in five of them right: as in a vault of 200,000 six-digit values. */
function guessesOf(count: number, from = 0): string[] {
  return Array.from({ length: count }, (_, i) => {
    if (i % 5 === 4) return right[((from + i) / 5) | 0]!;
    return `${from + i}${random.below(1e6)}x_tok`;
  });
}

const inPieces = (count: number, size: number) =>
  Array.from({ length: count }, (_, i) => guessesOf(size, i * size));

/** In which portions they are sent: requests after each other, each of several at once. */
const PORTIONS: Readonly<Record<string, () => string[][][]>> = {
  'all at once in one request': () => [[guessesOf(MOST)]],
  'in bulk, then 150 at once': () => [[guessesOf(MOST)], inPieces(150, 1)],
  'one by one': () => inPieces(100, 1).map((one) => [one]),
  '25 by 25': () => inPieces(15, 25).map((one) => [one]),
  'only wrong ones, in one request': () => [[guessesOf(MOST).filter((_, i) => i % 5 < 4)]],
  'in 100 requests at once': () => [inPieces(100, 1)],
  'in 15 requests at once': () => [inPieces(15, 20)],
};

/** A route whose requests can have guesses of tokens. */
function guessesAt(route: string): void {
  const cases = Object.entries(FORMS[route]!).flatMap(([name, formOf]) =>
    Object.entries(PORTIONS).map(([portion, portions]) => ({ name, portion, formOf, portions })),
  );
  test.each(cases)(
    'L23: $name, $portion: a new client learns of no more guesses than its budget',
    async ({ portion, formOf, portions }) => {
      const sent = portions().map((together) => together.map((guesses) => formOf(guesses, route)));
      const apiKey = await newClient(sent[0]![0]!.right);
      const startedMs = performance.now();
      let told = 0;
      for (const together of sent) {
        const learn = async (one: Sent) => learnt(one, await post(one, apiKey));
        for (const count of await Promise.all(together.map(learn))) told += count;
      }
      const refilled = Math.ceil((performance.now() - startedMs) / 1_000);
      expect(told).toBeLessThanOrEqual(BUDGET + refilled);
      if (portion === 'one by one') expect(told).toBeGreaterThanOrEqual(BUDGET - 3);
    },
  );
}

/** All of a response but its ids, with an x for each letter of its tokens. */
const shapeOf = ({ status, headers, body: { data, request_id: _, ...rest } }: Answer) => [
  status,
  [...headers.keys()],
  rest,
  JSON.stringify(data).replaceAll(/[a-z]/g, 'x'),
];

/** A route that stores values. */
function storesAt(path: string, dataOf: (value: string) => unknown): void {
  test('a response does not tell what was stored before', async () => {
    const apiKey = await newClient();
    const send = (value: string) => post({ path, data: dataOf(value), guesses: 0 }, apiKey);
    const [first, again, other] = [await send('Ann'), await send('Ann'), await send('Bob')];
    expect([shapeOf(again), shapeOf(other)]).toEqual([shapeOf(first), shapeOf(first)]);
  });
}

/** A route that reads its method, path and API key. */
function readsNothingAt(path: string): void {
  test('a response does not depend on what else is sent', async () => {
    const asked = async (query: string) => {
      const headers = { ...bearer(service.api_key), prefer: 'handling=lenient' };
      const response = await fetch(service.url + path + query, { headers });
      return [response.status, (await response.text()).replace(/"timestamp":"[^"]*"/, '')];
    };
    expect(await asked(`?token=${right[0]}`)).toEqual(await asked(''));
  });
}

function looksUpAt(path: string): void {
  test('a look-up tests 100 guesses of values, and counts against its limit', async () => {
    const apiKey = await newClient('guesser', { can_lookup: true, lookup_limit: 0.1 });
    const send = (values: readonly string[], key = apiKey) =>
      post({ path, data: { values }, guesses: 0 }, key);
    const guesses = Array.from({ length: 101 }, (_, i) => sixDigits(i));
    const { status, body } = await send(guesses.slice(0, 100));
    expect([status, body.data]).toEqual([200, { values: right.slice(0, 100) }]);
    expect((await send(guesses.slice(0, 1))).status).toBe(429);
    const tooMany = await send(guesses, await newClient('guesser', { can_lookup: true }));
    expect([tooMany.status, tooMany.body.data]).toEqual([400, undefined]);
  });
}

/** What a caller can learn at each route of the public API. */
const ROUTES: Readonly<Record<string, (route: string) => void>> = {
  '/api/v1/tokenize': (route) => storesAt(route, (value) => ({ value })),
  [DETOKENIZE]: guessesAt,
  '/api/v1/lookup': looksUpAt,
  '/api/v1/text/tokenize': (route) =>
    storesAt(route, (value) => ({ text: value, spans: [{ start: 0, end: 3, kind: 'person' }] })),
  [TEXT]: guessesAt,
  '/api/v1/policy': readsNothingAt,
  '/health': readsNothingAt,
  '/health/live': readsNothingAt,
};

test('what can be learnt is counted at every route of the public API', () => {
  expect(Object.keys(ROUTES)).toEqual(Object.keys(METHODS));
});

describe.each(Object.entries(ROUTES))('%s', (route, countAt) => countAt(route));
