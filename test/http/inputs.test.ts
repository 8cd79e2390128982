import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { send } from '../support/http.ts';
import { query } from '../support/postgres.ts';
import {
  call,
  kinds,
  leastPrivilegePlace,
  type Service,
  startService,
} from '../support/service.ts';

const SECRET = 'wPz7QhSecretValue';
let service: Service;
beforeAll(async () => {
  service = await startService(await leastPrivilegePlace());
});
afterAll(async () => {
  await service.stop();
  service.place.remove();
});

async function tokenize(body: string | Uint8Array) {
  const { status, text } = await send(service, '/api/v1/tokenize', body);
  return { status, text, body: JSON.parse(text) };
}

async function expectRefused(body: string | Uint8Array, message?: string | RegExp): Promise<void> {
  const answer = await tokenize(body);
  expect(answer.status, answer.text).toBe(400);
  expect(answer.body.error).toBe('invalid_type');
  expect(answer.text).not.toContain(SECRET);
  if (message !== undefined) expect(answer.body.message).toMatch(message);
}

/** The value comes back as it was sent. */
async function expectRoundTrip(data: Record<string, unknown>): Promise<void> {
  const tokenized = await call(service, 'tokenize', data);
  expect(tokenized.status, JSON.stringify(tokenized.body)).toBe(200);
  const restored = await call(service, 'detokenize', tokenized.body.data);
  expect(restored.body.data).toEqual(data);
}

describe('A03-A04: text that is not well-formed is refused, never repaired', () => {
  test.each([
    ['a lone high half', '{"data":{"a":"\\ud83d"}}'],
    ['a lone low half', '{"data":{"a":"x\\ude00"}}'],
    ['a lone half in a name', '{"data":{"\\ud83d":"a"}}'],
    ['byte FF', Buffer.from('{"data":{"a":"\xff"}}', 'latin1')],
    ['overlong C0 80', Buffer.from('{"data":{"a":"\xc0\x80"}}', 'latin1')],
    ['a byte order mark', '\ufeff{"data":{"a":"x"}}'],
    ['UTF-16', Buffer.from('{"data":{"a":"x"}}', 'utf16le')],
  ])('%s', (_name, body) => expectRefused(body));
});

test('A05, A13, A15: NUL, edge cases of names and values come back', async () => {
  await expectRoundTrip({ a: 'x\u0000y', b: '', c: ' ', d: '\u2028\u2029', e: '😀' });
  await expectRoundTrip({ '10': 'a', '2': 'b', b: 'c', a: 'd', '': 'e' });
  await expectRoundTrip({ long: 'é'.repeat(32_768) });
});

test('names that look like numbers keep their place in the text of both answers', async () => {
  const names = (text: string) =>
    [...text.matchAll(/("[^"]*"):/g)].map(([, name]) => JSON.parse(name!));
  const data = '{"b":"x","10":"y","2":{"\\u0031":"z","0":["w",{"7":"v","-1":"u"}]},"a":"t"}';
  const asked = `{ "9" : 1, "data" : ${data} , "1" : {} }`;
  const tokenized = await send(service, '/api/v1/tokenize', asked);
  const order = ['b', '10', '2', '1', '0', '7', '-1', 'a'];
  expect(names(tokenized.text)).toEqual(['data', ...order, 'request_id', 'client_id']);
  const restored = await send(service, '/api/v1/detokenize', tokenized.text);
  expect(names(restored.text)).toEqual(['data', ...order, 'status', 'request_id', 'client_id']);
  expect(JSON.parse(restored.text).data).toEqual(JSON.parse(data));
});

describe('A06: only strings are values, at any depth', () => {
  test.each(['9007199254740993', '1.0', '-0', '1e400', 'true', 'false', 'null'])(
    '%s',
    async (json) => {
      await expectRefused(
        `{"data":{"a":${json}}}`,
        /^data\.a: must be a string, not (a number|a boolean|null)/,
      );
      await expectRefused(
        `{"data":{"a":["${SECRET}",{"b c":[${json}]}]}}`,
        /^data\.a\[1\]\["b c"\]\[0\]: /,
      );
    },
  );
  test.each(['[]', '["x"]', '{}', '{"b":"c"}', '[[["x"]],{"y":["z"]}]'])('%s is walked', (json) =>
    expectRoundTrip({ a: JSON.parse(json) }),
  );
});

test('A07: an empty data is a 200', async () => {
  await expectRoundTrip({});
});

describe('A08: data must be an object', () => {
  test.each([
    '{}',
    '{"data":null}',
    '{"data":[]}',
    '{"data":"x"}',
    '{"data":1}',
    '[]',
    '"x"',
    'null',
    '',
  ])('%j', (body) => expectRefused(body));
});

describe('A09-A11: what JSON does not allow, or would lose, is refused', () => {
  test.each([
    '{',
    '{"data":{"a":"b",}}',
    "{'data':{}}",
    '{"data":{"a":NaN}}',
    '{"data":{}}x',
    '/**/{"data":{}}',
    `{"data":{"a":"${SECRET}","a":"2"}}`,
    '{"data":{"a":"1"},"data":{"b":"2"}}',
    `{"data":{"x":[{"\\u0061":"${SECRET}","a":"2"}]}}`,
    '{"data":{"__proto__":"bob"}}',
    '{"data":{"a":{"__proto__":{"x":"1"}}}}',
  ])('%s', (body) => expectRefused(body));
});

test('A12: names of built-in properties are plain names', () =>
  expectRoundTrip({
    constructor: 'a',
    prototype: 'b',
    toString: 'c',
    hasOwnProperty: 'd',
    length: 'e',
  }));

describe('A14-A19: limits', () => {
  test('names of 256 bytes, values of 65,536 bytes, 16 levels and 10,000 values are the most', async () => {
    await expectRoundTrip({ ['é'.repeat(128)]: 'x' });
    await expectRefused(`{"data":{"${'n'.repeat(257)}":"x"}}`, /longer than 256 bytes/);
    await expectRoundTrip({ a: 'v'.repeat(65_536) });
    await expectRefused(`{"data":{"a":"${'v'.repeat(65_537)}"}}`, /^data\.a: .*65536/);
    await expectRoundTrip(JSON.parse(`${'{"a":'.repeat(16)}"x"${'}'.repeat(16)}`));
    await expectRefused(`{"data":${'{"a":'.repeat(17)}"x"${'}'.repeat(17)}}`, /deeper than 16/);
    await expectRoundTrip({ a: Array.from({ length: 10_000 }, (_, i) => `v${i}`) });
    await expectRefused(
      JSON.stringify({ data: { a: Array(10_001).fill('v') } }),
      /more than 10000/,
    );
  });
  test('one detokenize restores at most 16 times the bytes of a body, as JSON has them', async () => {
    const values = { a: 'v'.repeat(65_536), nul: '\0'.repeat(65_536) };
    const { a, nul } = (await call(service, 'tokenize', values)).body.data;
    const restore = (token: string, times: number) =>
      call(service, 'detokenize', { a: Array(times).fill(token) });
    const most = await restore(a, 256);
    expect(most.status).toBe(200);
    expect(most.body.data.a).toEqual(Array(256).fill(values.a));
    const escaped = await restore(nul, 42);
    expect(escaped.status).toBe(200);
    expect(escaped.body.data.a).toEqual(Array(42).fill(values.nul));
    for (const { status, body } of [await restore(a, 257), await restore(nul, 43)]) {
      expect(status).toBe(400);
      expect(body.message).toMatch(/^data: .*16777216 bytes as JSON; send the tokens in several/);
    }
  });
  test('a large answer has its length and its structure, and values of any characters', async () => {
    const long = '"\\\0é漢😀'.repeat(3_000);
    const values = { short: 'a "b"', long };
    const { short: token, long: longToken } = (await call(service, 'tokenize', values)).body.data;
    const nested = <T>(short: T, long: T) => ({
      'é "': [[], {}, [long, { '': short }]],
      2: Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`n${i}`, long])),
      last: short,
    });
    const data = nested(values.short, long);
    const tokens = nested(token, longToken);
    const { status, text, headers } = await send(
      service,
      '/api/v1/detokenize',
      JSON.stringify({ data: tokens }),
    );
    expect(status).toBe(200);
    expect(JSON.parse(text).data).toEqual(data);
    expect(Number(headers.get('content-length'))).toBe(Buffer.byteLength(text));
    expect(Buffer.byteLength(text)).toBeGreaterThan(2_200_000);
  });
  test('A19: half a million brackets are refused, and the service goes on', async () => {
    await expectRefused('['.repeat(524_000));
    await expectRefused(`${'['.repeat(500_000)}${']'.repeat(500_000)}`);
    await expectRoundTrip({ a: 'alive' });
  });
});

test('A20: other top-level fields are ignored and not echoed', async () => {
  const answer = await tokenize(`{"data":{"a":"b"},"x":"${SECRET}","y":{"a":[1]}}`);
  expect(answer.status).toBe(200);
  expect(answer.text).not.toContain(SECRET);
  expect(Object.keys(answer.body).sort()).toEqual(['client_id', 'data', 'request_id']);
});

describe('A30-A34: unknown tokens', () => {
  test('name the field, not the value, and nothing else is given out', async () => {
    const known = (await call(service, 'tokenize', { known: Array(99).fill(SECRET) })).body.data
      .known;
    const answer = await call(service, 'detokenize', {
      known,
      deep: [{ a: `${SECRET.toLowerCase()}_tok` }],
    });
    expect(answer.status).toBe(400);
    expect(answer.body).toEqual({
      error: 'invalid_type',
      message: 'data.deep[0].a: is not a known token',
    });
  });
  test('malformed and unknown ones get the same answer', async () => {
    const token: string = (await call(service, 'tokenize', { a: SECRET })).body.data.a;
    const wrong = [
      token.slice(0, -4),
      token.replace('_tok', '_tik'),
      '_tok',
      token.slice(1),
      token.toUpperCase(),
      `${token} `,
      '',
    ];
    for (const a of wrong) {
      const answer = await call(service, 'detokenize', { a });
      expect(answer.status).toBe(400);
      expect(answer.body.message).toBe('data.a: is not a known token');
    }
  });
  test('values that are no strings are refused', async () => {
    for (const a of [1, null]) expect((await call(service, 'detokenize', { a })).status).toBe(400);
  });
  test('A34: a token is a value like any other', async () => {
    const once = (await call(service, 'tokenize', { a: SECRET })).body.data;
    const twice = (await call(service, 'tokenize', once)).body.data;
    expect(twice.a).not.toBe(once.a);
    expect((await call(service, 'detokenize', twice)).body.data).toEqual(once);
    expect((await call(service, 'detokenize', once)).body.data).toEqual({ a: SECRET });
  });
});

test.runIf(kinds().includes('server'))(
  'all or nothing: a refused request stores no row',
  async () => {
    const url = service.place.env.DATABASE_URL!;
    const count = async () =>
      Number((await query(url, 'select count(*) as n from standin.records'))[0]!.n);
    const before = await count();
    await expectRefused(`{"data":{"a":"never seen before","b":1}}`);
    expect(await count()).toBe(before);
  },
);

test('A43: what would break a log or a statement is a value like any other', () =>
  expectRoundTrip({
    '\n{"level":"fatal"}': '\u001b[31m',
    b: "'; drop table standin.records; --",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: an attack on loggers, meant as it stands
    c: '${jndi:ldap://x}',
  }));
