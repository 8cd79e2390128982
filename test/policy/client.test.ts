import { createHash } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { InvalidValueError, type Span, Standin, StandinError, UnauthorizedError } from '#client';
import { Front } from '../support/balancer.ts';
import { send as sendRaw } from '../support/http.ts';
import { governed } from '../support/policy.ts';
import { samples } from '../support/samples.ts';
import { startService, usualPlace } from '../support/service.ts';

const POLICY = `
version: 1
kinds:
  card: { shape: digits, keep_last: 4, suffix: false }
  person: { shape: word }
  secret: { shape: word }
fields:
  full_name: text
  first_name: text
  last_name: text
  email: email
  phones[*]: text
  customer["full name"]: word
  card: card
  born: date
elsewhere: pass
rights:
  support: { card: masked, person: full, text: full }
  "*": { "*": full }
`;

interface Row {
  readonly id: bigint;
  readonly at: number;
  readonly full_name?: string;
  readonly email: string;
  readonly phones: (string | null)[];
  readonly memo: string;
  readonly score: number | null;
  readonly active: boolean;
}

const at = governed(POLICY, { support: [] });
let front: Front;
let standin: Standin;
let support: Standin;
beforeAll(async () => {
  front = await Front.start(at.service.url);
  standin = new Standin({ url: at.service.url, apiKey: at.keys.app! });
  support = new Standin({ url: at.service.url, apiKey: at.keys.support! });
});
afterAll(() => front.stop());

function client<Policy extends boolean>(policy: Policy, options: object = {}) {
  front.bodies.length = 0;
  return new Standin({ url: front.url, apiKey: at.keys.app!, policy, ...options });
}

test.each(samples)(
  'all customers of the sample $name go there and back in lists of records, all else as it was',
  async (sample) => {
    const rows = sample.rows.map(
      ({ customer_id: id, email, phone, fax, full_name, first_name, last_name }, i): Row => ({
        ...(full_name === undefined ? { first_name, last_name } : { full_name }),
        id: 2n ** 60n + BigInt(id!),
        at: i / 3,
        email: email!,
        phones: [phone || null, fax || null],
        memo: `of ${email}`,
        score: i % 2 === 0 ? null : -0,
        active: i % 3 === 0,
      }),
    );
    const inParts = client(true, { maxValues: 100 });
    const tokens: Row[] = await inParts.tokenize(rows);
    expect(front.bodies.length).toBeGreaterThan(1);
    for (const body of front.bodies) expect(body).toMatch(/^\{"data":\[\{/);
    tokens.forEach((token, i) => {
      const { email, phones, memo, id, at, score } = rows[i]!;
      expect(token).toMatchObject({ memo, id, at, score });
      expect(token.email).toMatch(/_tok$/);
      expect([token.email, ...token.phones]).not.toContain(email);
      expect(token.phones.map((one) => one === null)).toEqual(phones.map((one) => one === null));
    });
    expect(await inParts.detokenize(tokens)).toEqual(rows);
  },
);

test('masks come as the policy has them', async () => {
  const tokens = await client(true).tokenize({ card: '4111 1111 1111 1234' });
  const masked = await client(true, { apiKey: at.keys.support }).detokenize(tokens);
  expect(masked).toEqual({ card: '**** 1234' });
});

test('a list of records on the wire: numbers byte for byte, and only objects', async () => {
  const send = (data: string) => at.send('tokenize', data);
  const odd = ' {"id" : 12345678901234567890, "x":[1.0, -0e1]}';
  expect((await send(`[${odd},{"email":null} ]`)).data).toBe(`[${odd},{"email":null} ]`);
  for (const item of ['7', 'null', '"a"', '[{"email":"ann@example.com"}]'])
    expect((await send(`[{},${item}]`)).body.message).toBe(
      'data[1]: must be a JSON object: a record',
    );
  const { body } = await send('"a"');
  expect(body.message).toBe('data: must be a JSON object, or a list of objects');
  expect((await send('[]')).data).toBe('[]');
});

test('the fields of the policy, and requests that only this policy may serve', async () => {
  const ask = (who: string, method = 'GET') =>
    fetch(`${at.service.url}/api/v1/policy`, {
      ...{ method, headers: { authorization: `Bearer ${at.keys[who] ?? who}` } },
    });
  const answer = await ask('support');
  const { version, fields } = (await answer.json()) as any;
  expect([answer.status, version, fields.length]).toEqual([200, 1, 8]);
  expect(fields).toContainEqual({ path: 'customer["full name"]', kind: 'word' });
  const tag = answer.headers.get('etag')!;
  expect(tag).toBe(`"${createHash('sha256').update(POLICY).digest('hex')}"`);
  const head = await ask('support', 'HEAD');
  expect([head.status, head.headers.get('etag'), await head.text()]).toEqual([200, tag, '']);
  expect((await ask('stk_wrong')).status).toBe(401);
  for (const wanted of [tag, '*', `"other", ${tag}`])
    expect((await at.send('tokenize', { id: 1 }, 'app', { 'if-match': wanted })).status).toBe(200);
  for (const wanted of ['"other"', `W/${tag}`, tag.slice(1, -1), '']) {
    const half = '{"data":{"email":';
    const { status, text } = await sendRaw(at.service, '/api/v1/tokenize', half, {
      ...{ 'if-match': wanted },
    });
    expect([status, JSON.parse(text).error]).toEqual([412, 'precondition_failed']);
  }
});

test('policyInForce has the fields of the policy, and says where there is none', async () => {
  const { version, fields } = await client(true).policyInForce();
  expect([version, fields[0]]).toEqual([1, { path: 'full_name', kind: 'text' }]);
  const other = await startService(await usualPlace());
  try {
    const without = new Standin({ url: other.url, apiKey: other.api_key });
    await expect(without.policyInForce()).rejects.toMatchObject({ code: 'not_found' });
  } finally {
    await other.stop();
    other.place.remove();
  }
});

const TEXT = '👩🏽 (Ann Lee) wrote: "📧 s3cret", Bo isn\'t known. 我叫Bo 👋';
const VALUES = { 'Ann Lee': 'person', s3cret: 'secret', Bo: 'person' };
const spans: Span[] = Object.entries(VALUES).map(([value, kind]) => {
  const start = TEXT.indexOf(value);
  return { start, end: start + value.length, kind };
});

const streamed = async (chunks: AsyncIterable<string> | Iterable<string>, by = standin) => {
  const pieces: string[] = [];
  for await (const piece of by.detokenizeStream(chunks)) pieces.push(piece);
  return pieces;
};

test('a text goes there and back, with offsets as JavaScript counts them', async () => {
  const { text, spans: found } = await standin.tokenizeText(TEXT, spans);
  for (const value of ['Ann Lee', 's3cret']) expect(text).not.toContain(value);
  expect(found.map(({ kind }) => kind)).toEqual(['person', 'secret', 'person']);
  for (const { start, end } of found) expect(text.slice(start, end)).toMatch(/^[a-z]{10}_tok$/);
  expect(await standin.detokenizeText(text)).toEqual({ text: TEXT, unapplied: [] });
});

test('what stays of a text is told by its offsets in the text that was passed', async () => {
  const { text, spans: found } = await standin.tokenizeText(TEXT, spans);
  const restored = await support.detokenizeText(`${text} nobodythere_tok`);
  const { start, end } = found[1]!;
  expect(restored.unapplied[0]).toEqual({ start, end, reason: 'forbidden' });
  expect(restored.unapplied[1]).toMatchObject({ reason: 'unknown', end: text.length + 16 });
  expect(restored.text).toContain(text.slice(start, end));
  expect(restored.text).toContain('Ann Lee');
});

test.each([
  ['known tokens', TEXT],
  ['what only looks like a token', 'enum { EOF_TOK, NUM_TOK };\nmax\\_tok = "5"; // \\_TOK'],
])('a stream of %s, cut anywhere, also in a surrogate pair, gives all bytes', async (_, whole) => {
  const text = whole === TEXT ? (await standin.tokenizeText(TEXT, spans)).text : whole;
  for (let cut = 0; cut <= text.length; cut++) {
    const pieces = await streamed([text.slice(0, cut), text.slice(cut)]);
    expect(pieces.join(''), `cut at ${cut}`).toBe(whole);
  }
  const chunks = text.match(/[\s\S]{1,4}/g)!;
  expect((await streamed(ReadableStream.from(chunks))).join('')).toBe(whole);
  expect(await streamed([])).toEqual([]);
});

test('a stream gives what is sure at once', async () => {
  const span = { start: 0, end: 7, kind: 'person' };
  const { text } = await standin.tokenizeText('Ann Lee is here', [span]);
  const stream = standin.detokenizeStream([`${text.slice(0, 5)}`, `${text.slice(5)}. `, 'x']);
  expect(await stream.next()).toEqual({ done: false, value: 'Ann Lee is here. ' });
});

test('a stream that is left early, or fails, ends its source', async () => {
  let ended = 0;
  async function* source(error?: Error) {
    try {
      yield 'one ';
      if (error) throw error;
      yield 'two ';
    } finally {
      ended++;
    }
  }
  for await (const piece of standin.detokenizeStream(source())) {
    expect(piece).toBe('one ');
    break;
  }
  const apiKey = 'stk_00000000000000000000000000003W8MOK';
  const stranger = new Standin({ url: at.service.url, apiKey });
  await expect(streamed(source(), stranger)).rejects.toBeInstanceOf(UnauthorizedError);
  await expect(streamed(source(new Error('of the model')))).rejects.toThrow('of the model');
  expect(ended).toBe(3);
});

test.each<[string, Span, string]>([
  ['behind the end', { start: 0, end: TEXT.length + 1, kind: 'person' }, 'spans[0]: start must'],
  ['empty', { start: 6, end: 6, kind: 'person' }, 'spans[0]: start must be below end'],
  ['a half of a pair', { start: 1, end: 6, kind: 'person' }, 'spans[0]: start must be below end'],
  ['no offset', { start: 0.5, end: 6, kind: 'person' }, 'spans[0]: start must be below end'],
  ['no kind', { start: 0, end: 2, kind: 'nobody' }, 'spans[0].kind: must be a kind of shape'],
])('a span is refused: %s', async (_, span, message) => {
  const refusal = standin.tokenizeText(TEXT, [span]);
  await expect(refusal).rejects.toBeInstanceOf(InvalidValueError);
  await expect(refusal).rejects.toThrow(`data.${message}`);
});

test('an answer of another server is refused', async () => {
  const answers = ['{}', '{"data":{"text":7}}', '{"data":{"text":"a"},"unapplied":[{}]}', 'x'];
  for (const text of answers) {
    const fetch = async () => ({ status: 200, headers: new Headers(), text: async () => text });
    const other = new Standin({ url: at.service.url, apiKey: at.keys.app!, fetch });
    await expect(other.detokenizeText('a')).rejects.toMatchObject({ code: 'bad_answer' });
    await expect(other.tokenizeText('a', [])).rejects.toBeInstanceOf(StandinError);
  }
});
