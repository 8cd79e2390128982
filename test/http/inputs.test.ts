import { describe, expect, test } from 'vitest';
import { send } from '../support/http.ts';
import { usualService } from '../support/served.ts';
import { call, runJson } from '../support/service.ts';
import { sql } from '../support/vault.ts';

const T = '/api/v1/tokenize';
const SECRET = 'wPz7QhSecretValue';
const service = usualService();

async function expectRefused(body: string | Uint8Array, message = /./): Promise<void> {
  const { status, text } = await send(service, T, body);
  expect(status, text).toBe(400);
  expect(JSON.parse(text)).toEqual({
    error: 'invalid_type',
    message: expect.stringMatching(message),
  });
  expect(text).not.toContain(SECRET);
}

/** Returns the tokens of `data`, which come back as it was sent. */
async function expectRoundTrip(data: any): Promise<any> {
  const tokenized = await call(service, 'tokenize', data);
  expect(tokenized.status, JSON.stringify(tokenized.body)).toBe(200);
  const restored = await call(service, 'detokenize', tokenized.body.data);
  expect([restored.status, restored.body.data]).toEqual([200, data]);
  return tokenized.body.data;
}

const countRows = async () =>
  Number((await sql(service.place, 'select count(*) as n from standin.records'))[0]!.n);

describe('A03-A04: text that is not well-formed is refused, never repaired', () => {
  const HALVES = ['\\ud83d', '\\ude00', 'a\\ud83dz', '\\ude00\\ud83d'];
  test.each(HALVES)('half of a surrogate pair: %s', async (half) => {
    const value = `{"data":{"a":["ok","${SECRET}${half}"]}}`;
    await expectRefused(value, /^data\.a\[1\]: must be well-formed Unicode/);
    const name = `{"data":{"a":{"${half}":"${SECRET}"}}}`;
    await expectRefused(name, /^data\.a: has a field name that is not well-formed Unicode$/);
  });
  test.each([
    ['byte FF', '\xff'],
    ['overlong C0 80', '\xc0\x80'],
    ['half of a surrogate pair as bytes', '\xed\xa0\xbd'],
    ['a cut character', '\xf0\x9f\x98'],
    ['a code point beyond the last', '\xf4\x90\x80\x80'],
  ])('%s', (_name, bytes) =>
    expectRefused(Buffer.from(`{"data":{"a":"${SECRET}${bytes}"}}`, 'latin1'), /valid UTF-8/),
  );
  test('a byte order mark, and UTF-16', async () => {
    await expectRefused('\ufeff{"data":{"a":"x"}}', /valid JSON/);
    await expectRefused(Buffer.from('\ufeff{"data":{"a":"x"}}', 'utf16le'), /valid UTF-8/);
  });
});

test.each([
  ['A05, A13, A15: NUL and edge cases', { a: 'x\0y', b: '', c: ' ', d: '\u2028\u2029', e: '😀' }],
  ['A13: names', { '10': 'a', '2': 'b', b: 'c', a: 'd', '': 'e' }],
  ['A12: names of built-in properties', { constructor: 'a', toString: 'b', __proto: 'c' }],
  ['A12: prototype and hasOwnProperty', { prototype: 'a', hasOwnProperty: 'b', length: 'c' }],
  ['A15: the longest value', { long: 'é'.repeat(32_768) }],
  ['A07: no value', {}],
  ['A43: a line of the log', { '\n{"level":"fatal"}': '\u001b[31m' }],
  ['A43: a statement', { b: "'; drop table standin.records; --" }],
  // biome-ignore lint/suspicious/noTemplateCurlyInString: an attack on loggers, meant as it stands
  ['A43: a look-up of a logger', { c: '${jndi:ldap://x}' }],
])('%s: a 200, and it comes back', (_, data) => expectRoundTrip(data));

test('names that look like numbers keep their place in the text of both responses', async () => {
  const names = (text: string) =>
    [...text.matchAll(/("[^"]*"):/g)].map(([, name]) => JSON.parse(name!));
  const data = '{"b":"x","10":"y","2":{"\\u0031":"z","0":["w",{"7":"v","-1":"u"}]},"a":""}';
  const tokenized = await send(service, T, `{ "9" : 1, "data" : ${data} , "1" : {} }`);
  const order = ['b', '10', '2', '1', '0', '7', '-1', 'a'];
  expect(names(tokenized.text)).toEqual(['data', ...order, 'request_id', 'client_id']);
  expect(tokenized.text).not.toContain('""');
  const restored = await send(service, '/api/v1/detokenize', tokenized.text);
  expect(names(restored.text)).toEqual(['data', ...order, 'status', 'request_id', 'client_id']);
  expect(JSON.parse(restored.text).data).toEqual(JSON.parse(data));
});

describe('A06: only strings are values, at any depth', () => {
  const DIGITS = 'a number; send it in quotes, JSON numbers lose digits';
  const NUMBERS = ['9007199254740993', '1.0', '-0', '1e400'].map((json) => [json, DIGITS] as const);
  test.each([
    ...NUMBERS,
    ['true', 'a boolean'] as const,
    ['false', 'a boolean'] as const,
    ['null', 'null'] as const,
  ])('%s is refused with its path', async (json, type) => {
    const reason = `: must be a string, not ${type}$`;
    await expectRefused(`{"data":{"a":${json}}}`, new RegExp(`^data\\.a${reason}`));
    const deep = `{"data":{"a":["${SECRET}",{"b c":[[${json}]]}],"d":null}}`;
    await expectRefused(deep, new RegExp(`^data\\.a\\[1\\]\\["b c"\\]\\[0\\]\\[0\\]${reason}`));
    await expectRefused(`{"data":{"":${json}}}`, /^data\[""\]: /);
  });
  test.each(['[]', '["x"]', '{}', '{"b":"c"}', '[[["x"]],{"y":["z"]}]'])('%s is walked', (json) =>
    expectRoundTrip({ a: JSON.parse(json) }),
  );
});

describe('A08: data must be an object', () => {
  test.each([
    ['body: must be a JSON object', ['null', '"x"', '1', '[]', '[{"data":{}}]', '']],
    ['data: is missing', ['{}', '{"Data":{}}', '{"__proto__":{"data":{"a":"b"}}}']],
    ['data: must be a JSON object', ['null', '[]', '"x"', '1'].map((json) => `{"data":${json}}`)],
  ])('%s', async (reason, bodies) => {
    for (const body of bodies) await expectRefused(body, new RegExp(`^${reason}|not empty$`));
  });
});

describe('A09-A11: what JSON would lose is refused', () => {
  test.each([
    [`{"data":{"a":"${SECRET}","a":"2"}}`, /twice/],
    ['{"data":{"a":"1"},"data":{"b":"2"}}', /twice/],
    [`{"data":{"x":[{"\\u0061":"${SECRET}","a":"2"}]}}`, /twice/],
    ['{"data":{"__proto__":"bob"}}', /__proto__, which is not allowed/],
    ['{"data":{"a":[{"__proto__":{"x":"1"}}]}}', /__proto__, which is not allowed/],
    ['{"data":{"\\u005f_proto__":"bob"}}', /__proto__, which is not allowed/],
  ])('%s', (body, reason) => expectRefused(body, reason));
});

/** After the kinds of JSONTestSuite. */
const NOT_JSON = [
  ...['', ' ', ...'{ } [ ] {] [} <data/> data=a'.split(' ')],
  ...['{"data":{"a":"b"}', '{"data":{"a":"b"}}}', '{"data":{"a":"b"}},', '{"data":{"a":"b"}} x'],
  ...['{"data":{}}x', '/**/{"data":{}}', '{"data":{/**/}}', '{"data":{}}//', '#{"data":{}}'],
  ...['{"data":{"a":"b",}}', '{"data":{,"a":"b"}}', '{"data":{"a":"b" "c":"d"}}', "{'data':{}}"],
  ...['{"data":{"a"}}', '{"data":{"a":}}', '{"data":{:"b"}}', '{"data":{a:"b"}}'],
  ...['{"data":{}}\0', '\u00a0{"data":{}}', '\ufeff{"data":{}}'],
];
const NOT_VALUES = [
  ...["'b'", 'b', '"b', '"b\\"', '"\\x41"', '"\\u12"', '"\\u12g4"', '"\\"', '"tab\there"'],
  ...['"new\nline"', '"\0"', '["b",]', '["b" "c"]', '[,]', '01', '+1', '.5', '1.', '1e', '0x1'],
  ...['NaN', 'Infinity', '-', 'True', 'nul', 'undefined'],
];
test.each([...NOT_JSON, ...NOT_VALUES.map((json) => `{"data":{"a":${json}}}`)])(
  'A09, A44: refused, because it is no JSON: %j',
  (body) => expectRefused(body, /valid JSON|not empty/),
);

test.each([
  ' { "data" : { } } ',
  '\t\r\n{"data":{"a":"b"}}\n',
  '{"data":{"a":"\\u0041\\/\\b\\f\\n\\r\\t\\"\\\\"}}',
  '{"data":{"\\u0061":"b"}}',
  '{"data":{"a":"\\ud83d\\ude00"}}',
  '{"data":{"a":"\u007f\u2028\uffff"}}',
  '{"data":{"":""}}',
  '{"data":{"a":[[],{},[{}]]}}',
  '{"x":[1e400,-0,1.5E+3,null,true],"data":{}}',
  '{"data":{"a":"}\\"]{:,"}}',
  '{"data":{"a:b":"\\":\\""}}',
  '{"x":{"data":{"a":1}},"data":{"data":"data"}}',
])('A44: taken, however it is written: %j', async (body) => {
  const tokenized = await send(service, T, body);
  expect(tokenized.status, tokenized.text).toBe(200);
  const restored = await send(service, '/api/v1/detokenize', tokenized.text);
  expect(JSON.parse(restored.text).data).toEqual(JSON.parse(body).data);
});

describe('A14-A19: limits', () => {
  /** The longest text of so many bytes, and one that is longer. */
  const around = (bytes: number, character: string) => {
    const longest = character.repeat(Math.floor(bytes / Buffer.byteLength(character)));
    return [longest, longest + (character === '€' ? '€' : 'x')] as const;
  };
  test.each(['x', 'é', '€', '😀'])(
    'A14, A15: names of 256 bytes and values of 65,536 bytes are the most: %s',
    async (character) => {
      const [name, longer] = around(256, character);
      await expectRoundTrip({ a: { [name]: 'x' } });
      const tooLong = /^data\.a: has a field name longer than 256 bytes$/;
      await expectRefused(JSON.stringify({ data: { a: { [longer]: SECRET } } }), tooLong);
      const [value, larger] = around(65_536, character);
      await expectRoundTrip({ a: value });
      const tooLarge = /^data\.a: must not be longer than 65536 bytes$/;
      await expectRefused(JSON.stringify({ data: { a: larger } }), tooLarge);
    },
  );
  test('16 levels and 10,000 values are the most', async () => {
    for (const [open, close] of [['{"a":', '}'] as const, ['[', ']'] as const]) {
      const data = (levels: number) => `{"a":${open.repeat(levels)}"x"${close.repeat(levels)}}`;
      await expectRoundTrip(JSON.parse(data(15)));
      for (const levels of [16, 40_000])
        await expectRefused(`{"data":${data(levels)}}`, /: is nested deeper than 16 levels$/);
    }
    await expectRoundTrip({ a: Array.from({ length: 10_000 }, (_, i) => `v${i}`) });
    const tooMany = { data: { a: Array(10_001).fill(SECRET) } };
    await expectRefused(JSON.stringify(tooMany), /^data: has more than 10000 values; send them/);
  });
  test('one detokenize restores at most 16 times the bytes of a body, as JSON has them', async () => {
    const values = { a: 'v'.repeat(65_536), nul: '\0'.repeat(65_536) };
    const tokens = (await call(service, 'tokenize', values)).body.data;
    const restore = (name: 'a' | 'nul', times: number) =>
      call(service, 'detokenize', { a: Array(times).fill(tokens[name]) });
    for (const [name, most] of [['a', 256] as const, ['nul', 42] as const]) {
      const { status, body } = await restore(name, most);
      expect([status, body.data]).toEqual([200, { a: Array(most).fill(values[name]) }]);
      const refused = await restore(name, most + 1);
      expect(refused.status).toBe(400);
      const reason = /^data: .*16777216 bytes as JSON; send the tokens in several/;
      expect(refused.body.message).toMatch(reason);
    }
    // A gap is said before the size, also that of a token whose value was forgotten.
    const { long } = (await call(service, 'tokenize', { long: 'f'.repeat(3_000) })).body.data;
    await runJson(service.place, 'forget', long, '--yes');
    for (const last of [`x${long}`, long]) {
      const { body } = await call(service, 'detokenize', { a: Array(257).fill(tokens.a), last });
      expect(body.message).toBe('data.last: is not a known token');
    }
  });
  test('a large response has its length and its structure, and values of any characters', async () => {
    const long = '"\\\0é漢😀'.repeat(3_000);
    const values = { short: 'a "b"', long };
    const { short: token, long: longToken } = (await call(service, 'tokenize', values)).body.data;
    const nested = <T>(short: T, long: T) => ({
      'é "': [[], {}, [long, { '': short }]],
      2: Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`n${i}`, long])),
      last: short,
    });
    const body = JSON.stringify({ data: nested(token, longToken) });
    const { status, text, headers } = await send(service, '/api/v1/detokenize', body);
    expect([status, JSON.parse(text).data]).toEqual([200, nested(values.short, long)]);
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
  const body = `{"data":{"a":"b"},"x":"${SECRET}","y":{"a":[1]}}`;
  const { status, text } = await send(service, T, body);
  expect(status).toBe(200);
  expect(text).not.toContain(SECRET);
  expect(Object.keys(JSON.parse(text)).sort()).toEqual(['client_id', 'data', 'request_id']);
});

describe('A30-A34: unknown tokens', () => {
  const UNKNOWN = { error: 'invalid_type', message: 'data.a: is not a known token' };
  test('name the field, not the value, and nothing else is given out', async () => {
    const { known } = await expectRoundTrip({ known: Array(99).fill(SECRET) });
    const data = { known, deep: [{ a: `${SECRET.toLowerCase()}_tok` }] };
    const { status, body } = await call(service, 'detokenize', data);
    expect([status, body]).toEqual([
      400,
      { ...UNKNOWN, message: 'data.deep[0].a: is not a known token' },
    ]);
  });
  test('malformed and unknown ones get the same response', async () => {
    const { a: token } = await expectRoundTrip({ a: SECRET });
    const cut = [token.slice(0, -4), token.slice(1), token.replace('_tok', '_tik')];
    for (const a of [...cut, '_tok', token.toUpperCase(), `${token} `, '']) {
      const { status, body } = await call(service, 'detokenize', { a });
      expect([a, status, body]).toEqual([a, 400, UNKNOWN]);
    }
  });
  test('A34: a token is a value like any other', async () => {
    const once = await expectRoundTrip({ a: SECRET });
    const twice = await expectRoundTrip(once);
    expect(twice.a).not.toBe(once.a);
  });
});

test('all or nothing: a refused request stores no row', async () => {
  const before = await countRows();
  await expectRefused(`{"data":{"a":"never seen before","b":1}}`);
  expect(await countRows()).toBe(before);
});
