import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  ForbiddenError,
  InvalidValueError,
  LimitError,
  Standin,
  StandinError,
  type StandinOptions,
  UnauthorizedError,
} from '#client';
import { Front } from '../support/balancer.ts';
import { noteSecrets } from '../support/secrecy.ts';
import {
  createClient,
  leastPrivilegePlace,
  type Place,
  type Service,
  startService,
} from '../support/service.ts';

const MANY = 50_000;
const names = (count: number, of: string) =>
  Array.from({ length: count }, (_, i) => `${of} no ${i}`);

let place: Place;
let service: Service;
let front: Front;
beforeAll(async () => {
  place = await leastPrivilegePlace();
  service = await startService(place);
  front = await Front.start(service.url);
});
afterAll(async () => {
  front.stop();
  await service.stop();
  place.remove();
});

/** Counts its requests: they go through a proxy. */
function standin(options: Partial<StandinOptions> = {}): Standin {
  front.bodies.length = 0;
  front.mostOpen = 0;
  return new Standin({ url: front.url, apiKey: service.api_key, ...options });
}

/** The error that a promise is rejected with; fails where it is not. */
async function failure<E>(kind: new (...args: any[]) => E, promise: Promise<unknown>): Promise<E> {
  const error = await promise.then(
    () => 'none',
    (one) => one,
  );
  expect(error).toBeInstanceOf(kind);
  return error;
}

describe('data', () => {
  const data = {
    customer: { name: 'Ann Lee', emails: ['ann@example.com', 'bo@example.org'], 'e mail': '' },
    '2': 'second',
    '1': 'first',
    list: [[], {}, [['deep\u0000 🙂 "quoted"\n']]],
    constructor: 'of a record',
    toJSON: 'of a record, too',
  };

  test('round trip: a small input is one list of its values, and stays as it was', async () => {
    noteSecrets(data);
    const before = structuredClone(data);
    const client = standin();
    const tokens = await client.tokenize(data);
    const values: string[] = [];
    JSON.stringify(data, (_, one) => (typeof one === 'string' ? values.push(one) : one));
    expect(front.bodies).toEqual([JSON.stringify({ data: { values } })]);
    expect(data).toEqual(before);
    const form = (json: unknown) =>
      JSON.stringify(json, (_, one) => (typeof one === 'string' ? 'string' : one));
    expect(form(tokens)).toBe(form(data));
    expect(await client.detokenize(tokens)).toEqual(data);
  });

  test('fields: the named strings of records that have numbers, dates and nulls, in one request', async () => {
    const order = (i: number) => ({
      id: i,
      email: `picked${i}@example.org`,
      phone: null,
      born: new Date(i),
      items: [{ to: `Picked ${i}`, count: 2 }],
    });
    const orders = [order(1), order(2)];
    noteSecrets(orders.map(({ email }) => email));
    const client = standin();
    const fields = ['email', 'phone', 'items[*].to'] as const;
    const tokens = await client.tokenize(orders, { fields });
    expect(front.bodies).toHaveLength(1);
    expect(Object.keys(JSON.parse(front.bodies[0]!).data)).toEqual(['values']);
    const [first] = tokens;
    expect(first).toEqual({
      ...order(1),
      email: expect.stringMatching(/^[a-z]+@[a-z]+\.[a-z]+_tok$/),
      items: [{ to: expect.stringMatching(/_tok$/), count: 2 }],
    });
    expect(await client.detokenize(tokens, { fields })).toEqual(orders);
    const error = await failure(
      InvalidValueError,
      client.detokenize({ id: 7, email: 'nobody@knows.me_tok' }, { fields: ['email'] }),
    );
    expect(error.message).toBe('data.email: is not a known token');
  });

  test('a list of records keeps its form, in requests that it shares', async () => {
    const records = names(30, 'Record').map((name) => ({ name, city: 'Bern' }));
    const client = standin({ maxValues: 10, concurrency: 2 });
    const tokens = await client.tokenize(records);
    // 30 names, and a city that is sent once.
    expect(front.bodies).toHaveLength(4);
    expect(front.mostOpen).toBeLessThanOrEqual(2);
    expect(tokens[29]!.city).toBe(tokens[0]!.city);
    expect(new Set(tokens.map(({ name }) => name)).size).toBe(30);
    expect(await client.detokenize(tokens)).toEqual(records);
  });

  test('an object that is too large is split by its values, and by its bytes', async () => {
    const client = standin({ maxValues: 7, maxBytes: 1_000 });
    const byValues = { names: names(20, 'Ann'), inner: { one: 'more' } };
    expect(await client.detokenize(await client.tokenize(byValues))).toEqual(byValues);
    expect(front.bodies).toHaveLength(3 + 3);
    const byBytes = { a: 'ä'.repeat(300), b: ['ö'.repeat(300), '\u0001'.repeat(100)] };
    const tokens = await client.tokenize(byBytes);
    expect(front.bodies).toHaveLength(3 + 3 + 3);
    for (const body of front.bodies) expect(Buffer.byteLength(body)).toBeLessThanOrEqual(1_000);
    expect(await client.detokenize(tokens)).toEqual(byBytes);
  });

  test(`${MANY} values come back in their order, with at most four requests at once`, async () => {
    const values = names(MANY, 'Value');
    const client = standin();
    const tokens = await client.tokenizeValues(values);
    expect(front.bodies).toHaveLength(MANY / 2_000);
    expect(front.mostOpen).toBeLessThanOrEqual(4);
    expect(new Set(tokens).size).toBe(MANY);
    expect(await client.detokenizeValues(tokens)).toEqual(values);
  });

  test('nothing is no request', async () => {
    const client = standin();
    expect(await client.tokenizeValues([])).toEqual([]);
    expect(await client.tokenize([{ a: [] }])).toEqual([{ a: [] }]);
    expect(front.bodies).toEqual([]);
    expect(await client.tokenize({ a: {} })).toEqual({ a: {} });
  });

  test('the most that a value may have, as many of them as there are', async () => {
    const values = names(40, '🙂').map((name) => name.padEnd(65_534, '"'));
    const client = standin();
    expect(await client.detokenizeValues(await client.tokenizeValues(values))).toEqual(values);
    for (const body of front.bodies) expect(Buffer.byteLength(body)).toBeLessThanOrEqual(900_000);
  });

  test('what the caller changes meanwhile is not in the answer', async () => {
    const client = standin();
    const changing: { names: string[]; more?: string } = { names: ['Ann Lee', 'Bo Ray'] };
    const pending = client.tokenize(changing);
    changing.names.length = 0;
    changing.more = 'later';
    const tokens = await pending;
    expect(await client.detokenize(tokens)).toEqual({ names: ['Ann Lee', 'Bo Ray'] });
  });

  test('random mode: a value has one token in a call, and another in the next', async () => {
    const { api_key: apiKey } = await createClient(place, '--token-mode', 'random');
    const client = standin({ apiKey: apiKey, maxValues: 2 });
    const values = ['Ann Lee', 'Bo Ray', 'Cy Day', 'Ann Lee'];
    const [first, second] = [
      await client.tokenizeValues(values),
      await client.tokenizeValues(values),
    ];
    expect(first[0]).toBe(first[3]);
    expect(first[0]).not.toBe(second[0]);
    expect(await client.detokenizeValues([...first, ...second])).toEqual([...values, ...values]);
  });
});

describe('refusals', () => {
  test('a token that is not known: its place, in an object, in a list, in a list that was split', async () => {
    const client = standin({ maxValues: 3 });
    const tokens = await client.tokenizeValues(names(10, 'Known'));
    const refused = async (data: object) =>
      failure(InvalidValueError, client.detokenize(data as { a: string }));
    const small = await refused({ a: tokens[0], 'e: mail': { b: [tokens[1], 'Hidden'] } });
    expect([small.path, small.index]).toEqual(['data["e: mail"].b[1]', undefined]);
    tokens[7] = 'Hidden';
    const list = await refused(tokens);
    expect([list.message, list.path, list.index]).toEqual([
      'data[7]: is not a known token',
      'data[7]',
      7,
    ]);
    expect(list).toMatchObject({ code: 'invalid_type', status: 400, attempts: 1 });
    expect(list.requestId).toMatch(/^[0-9a-f-]{36}$/);
    const large = await refused({ rows: tokens.map((token) => ({ token })) });
    expect(large.path).toBe('data.rows[7].token');
    for (const error of [small, list, large]) expect(inspect(error)).not.toContain('Hidden');
  });

  test('401: an API key that is not known is not tried again', async () => {
    const apiKey = 'stk_00000000000000000000000000003W8MOK';
    const error = await failure(UnauthorizedError, standin({ apiKey }).tokenize({ a: 'Ann Lee' }));
    expect(error).toMatchObject({ code: 'unauthorized', status: 401, attempts: 1 });
    expect(inspect(error)).not.toContain(apiKey);
    expect(inspect(error)).not.toContain('Ann Lee');
  });

  test('403: what the client may not do is not tried again', async () => {
    const { api_key: apiKey } = await createClient(place, '--can', 'tokenize');
    const client = standin({ apiKey: apiKey });
    const tokens = await client.tokenizeValues(['Ann Lee']);
    const error = await failure(ForbiddenError, client.detokenizeValues(tokens));
    expect(error).toMatchObject({ code: 'forbidden', status: 403, attempts: 1 });
    expect(error.message).toBe(`detokenize: 403 forbidden: ${error.detail}`);
    expect(error.detail).toMatch(/^this client may not detokenize; an operator can allow it: /);
  });

  test.each<[string, (url: string, init: RequestInit) => Promise<Response>, string]>([
    [
      'not_found',
      (url, init) => fetch(`${url}/elsewhere`, init),
      'no such path; the paths are /api/v1/tokenize, ',
    ],
    [
      'method_not_allowed',
      (url, init) => fetch(url, { ...init, method: 'PUT' }),
      'this path takes POST',
    ],
    [
      'payload_too_large',
      (url, init) => fetch(url, { ...init, body: 'a'.repeat(1_048_577) }),
      'the body has more than 1048576 bytes (BODY_LIMIT); ',
    ],
    [
      'unsupported_media_type',
      (url, init) => fetch(url, { ...init, headers: { ...init.headers, 'content-type': 'a/b' } }),
      'send one header Content-Type: application/json (UTF-8)',
    ],
  ])('%s: the error has the message of the service', async (code, send, message) => {
    const client = standin({ fetch: send as typeof fetch });
    const error = await failure(StandinError, client.tokenize({ a: 'Ann Lee' }));
    expect(error).toMatchObject({ code, attempts: 1 });
    expect(error.detail).toContain(message);
    expect(error.message).toContain(`${error.status} ${code}: ${error.detail}`);
    expect(inspect(error)).not.toContain('Ann Lee');
  });

  test('413 and too many values: the message has the remedy', async () => {
    const strict = await startService(place, { BODY_LIMIT: '1024', VALUES_LIMIT: '3' });
    try {
      const client = new Standin({ url: strict.url, apiKey: service.api_key });
      await expect(client.tokenize({ a: 'a'.repeat(2_000) })).rejects.toMatchObject({
        code: 'payload_too_large',
        message: expect.stringContaining('maxBytes'),
      });
      const error = await failure(InvalidValueError, client.tokenizeValues(names(4, 'Ann')));
      expect(error.message).toMatch(/^data: has more than 3 values/);
    } finally {
      await strict.stop();
    }
  });
});

describe('limits', () => {
  test('all is answered at a low rate, by waiting', async () => {
    const { api_key: apiKey } = await createClient(place, '--rate-limit', '4');
    const client = standin({ apiKey: apiKey, maxValues: 1, concurrency: 4 });
    const values = names(12, 'Slow');
    const tokens = await client.tokenizeValues(values);
    // More requests than values: some were refused.
    expect(front.bodies.length).toBeGreaterThan(values.length);
    expect(await standin().detokenizeValues(tokens)).toEqual(values);
  });

  test.each(['1.0.5', '1.0.4'])(
    'interface %s: a wait past the deadline is an error at once',
    async (version) => {
      const limited = await startService(place, { INTERFACE_VERSION: version });
      try {
        const { api_key: apiKey } = await createClient(place, '--rate-limit', '0.01');
        const client = new Standin({ url: limited.url, apiKey: apiKey });
        const { a } = await client.tokenize({ a: 'Ann Lee' });
        expect(a).toMatch(/_tok$/);
        const error = await failure(LimitError, client.tokenize({ a: 'Ann Lee' }));
        const code = version === '1.0.5' ? 'user_limit' : 'rate_limit';
        expect(error).toMatchObject({ code, status: 429, attempts: 1 });
        expect(error.requestId).toMatch(/^[0-9a-f-]{36}$/);
        expect(error.retryAfterMs).toBeGreaterThan(30_000);
        expect((await client.health()).version).toBe(version);
        expect(await client.detokenize({ a })).toEqual({ a: 'Ann Lee' });
      } finally {
        await limited.stop();
      }
    },
  );
});
