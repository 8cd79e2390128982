import { createHash } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Standin, UnauthorizedError } from '#client';
import { Front } from '../support/balancer.ts';
import { send as sendRaw } from '../support/http.ts';
import { governed } from '../support/policy.ts';
import { samples } from '../support/samples.ts';

const POLICY = `
version: 1
kinds:
  person: { shape: word }
fields:
  full_name: text
  first_name: text
  last_name: text
  email: email
  phones[*]: text
  customer["full name"]: word
  born: date
elsewhere: pass
rights: { "*": { "*": full } }
`;

const at = governed(POLICY);
let front: Front;
let standin: Standin;
beforeAll(async () => {
  front = await Front.start(at.service.url);
  standin = new Standin({ url: at.service.url, apiKey: at.keys.app! });
});
afterAll(() => front.stop());

/** A client that sends records. */
function client(options: object = {}) {
  front.bodies.length = 0;
  return new Standin({ url: front.url, apiKey: at.keys.app!, policy: true, ...options });
}

test.each(samples)(
  'all customers of the sample $name go there and back in lists of records, all else as it was',
  async (sample) => {
    const rows = sample.rows.map(({ customer_id: id, phone, fax, email, ...names }, i) => ({
      ...{ ...names, email: email!, memo: `of ${email}`, phones: [phone || null, fax || null] },
      ...{ id: 2n ** 60n + BigInt(id!), at: i / 3, score: i % 2 ? -0 : null, active: i % 3 === 0 },
    }));
    const inParts = client({ maxValues: 100 });
    const tokens = await inParts.tokenize(rows);
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
  const answer = await ask('app');
  const { version, fields } = (await answer.json()) as any;
  expect([answer.status, version, fields.length]).toEqual([200, 1, 7]);
  expect(fields).toContainEqual({ path: 'customer["full name"]', kind: 'word' });
  const tag = answer.headers.get('etag')!;
  expect(tag).toBe(`"${createHash('sha256').update(POLICY).digest('hex')}"`);
  const head = await ask('app', 'HEAD');
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

const streamed = async (chunks: AsyncIterable<string> | Iterable<string>, by = standin) => {
  const pieces: string[] = [];
  for await (const piece of by.detokenizeStream(chunks)) pieces.push(piece);
  return pieces;
};

test('a stream gives what is sure at once', async () => {
  const span = { start: 0, end: 7, kind: 'person' };
  const { text } = await standin.tokenizeText('Ann Lee is here', [span]);
  const stream = standin.detokenizeStream([`${text.slice(0, 5)}`, `${text.slice(5)}. `, 'x']);
  expect(await stream.next()).toEqual({ done: false, value: 'Ann Lee is here. ' });
});

test('a stream of a runtime goes through, and half of a surrogate pair waits for the other', async () => {
  const text = 'a 👋 b';
  const pieces = await streamed(ReadableStream.from(text.split('')));
  expect(pieces.join('')).toBe(text);
  expect(pieces.every((piece) => piece !== '' && piece.isWellFormed())).toBe(true);
  expect(await streamed([])).toEqual([]);
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
