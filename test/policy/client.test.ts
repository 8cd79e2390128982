import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ForbiddenError, InvalidValueError, Standin } from '#client';
import { Front } from '../support/balancer.ts';
import { startWithPolicy } from '../support/policy.ts';
import { postgresBin } from '../support/postgres.ts';
import { samples } from '../support/samples.ts';
import { createClient, kinds, type Service, startService, usualPlace } from '../support/service.ts';

const POLICY = `
version: 1
kinds:
  card: { shape: digits, keep_last: 4, suffix: false }
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
  support: { card: masked, date: none, "*": full }
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

describe.skipIf(postgresBin === undefined || !kinds().includes('server'))('with a policy', () => {
  let service: Service;
  let front: Front;
  let support: string;

  beforeAll(async () => {
    service = await startWithPolicy(POLICY);
    front = await Front.start(service.url);
    support = (await createClient(service.place, '--name', 'support')).api_key;
  });
  afterAll(async () => {
    front.stop();
    await service.stop();
  });

  function client<Policy extends boolean>(policy: Policy, options: object = {}) {
    front.bodies.length = 0;
    return new Standin({ url: front.url, apiKey: service.api_key, policy, ...options });
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
      const standin = client(true, { maxValues: 100 });
      const tokens: Row[] = await standin.tokenize(rows);
      expect(front.bodies.length).toBeGreaterThan(1);
      for (const body of front.bodies) expect(body).toMatch(/^\{"data":\[\{/);
      tokens.forEach((token, i) => {
        const { email, phones, memo, id, at, score } = rows[i]!;
        expect(token).toMatchObject({ memo, id, at, score });
        expect(token.email).toMatch(/_tok$/);
        expect([token.email, ...token.phones]).not.toContain(email);
        expect(token.phones.map((one) => one === null)).toEqual(phones.map((one) => one === null));
      });
      expect(await standin.detokenize(tokens)).toEqual(rows);
    },
  );

  test('one record is sent as it is', async () => {
    const record = { id: 7n, customer: { 'full name': 'Ann Lee', age: 4.5 }, cards: [null, true] };
    const standin = client(true);
    const tokens = await standin.tokenize(record);
    expect(front.bodies).toEqual([
      '{"data":{"id":0,"customer":{"full name":"Ann Lee","age":4.5},"cards":[null,true]}}',
    ]);
    expect(tokens).toEqual({
      ...record,
      customer: { 'full name': expect.stringMatching(/^[a-z]{10}_tok$/), age: 4.5 },
    });
    expect(await standin.detokenize(tokens)).toEqual(record);
  });

  test('what the service refuses is named as it is in the whole list', async () => {
    const records: { born: string | number }[] = Array.from({ length: 9 }, () => ({
      born: '1985-04-12',
    }));
    records[7]!.born = '1985-02-30';
    const standin = client(true, { maxValues: 3 });
    await expect(standin.tokenize(records)).rejects.toMatchObject({
      path: 'data[7].born',
      index: 7,
      reason: expect.stringContaining('is not a real date'),
    });
    records[7]!.born = 7;
    await expect(standin.tokenize(records)).rejects.toThrow(
      'data[7].born: must be a string or null, not a number; the policy names it',
    );
  });

  test('masks, and what the client may not see: an error, or a lenient answer', async () => {
    const records = Array.from({ length: 5 }, (_, i) => ({
      card: `4111 1111 1111 ${1000 + i}`,
      born: i === 3 ? `1985-04-1${i}` : null,
    }));
    const tokens = await client(true).tokenize(records);
    tokens[4]!.born = 'abc_tok';
    const standin = client(true, { apiKey: support, maxValues: 2 });
    const error = await standin.detokenize(tokens.slice(0, 4)).catch((one) => one);
    expect(error).toBeInstanceOf(ForbiddenError);
    expect(error).toMatchObject({ path: 'data[3].born', kind: 'date', status: 403 });
    expect(error.message).toBe(`detokenize: 403 forbidden: ${error.detail}`);
    expect(error.detail).toMatch(/^data\[3\]\.born: this client may not see values of kind date;/);
    const { data, unapplied } = await standin.detokenize(tokens, { lenient: true });
    expect(data.map(({ card }) => card)).toEqual(records.map((_, i) => `**** ${1000 + i}`));
    expect(unapplied).toEqual([
      { path: 'data[3].born', reason: 'forbidden' },
      { path: 'data[4].born', reason: 'unknown' },
    ]);
    expect(data[3]!.born).toBe(tokens[3]!.born);
  });

  test('a look-up finds tokens, also of more values than a request may have', async () => {
    const operations = ['--can', 'tokenize,lookup'];
    const { api_key: apiKey } = await createClient(service.place, ...operations);
    const standin = client(true, { apiKey });
    const there = await standin.tokenize([{ email: 'ann@example.com', id: 1 }]);
    const rows = Array.from({ length: 250 }, (_, i) => ({ email: `never${i}@example.com`, id: i }));
    const found = await standin.lookup([...rows, { email: 'ann@example.com', id: 1 }]);
    expect(found).toEqual([...rows.map(({ id }) => ({ email: null, id })), there[0]]);
    expect(front.bodies).toHaveLength(1 + 3);
  });

  test('without the option, values are text, and lenient calls name every place', async () => {
    const standin = client(false, { maxValues: 2 });
    const [born, card] = await standin.tokenizeValues(['1985-04-12', '4111 1111 1111 1111']);
    expect([born, card]).toEqual([expect.stringMatching(/_tok$/), expect.stringMatching(/_tok$/)]);
    const list = ['no_tok', born!, 'never_tok', card!, 'no_tok'];
    const expected = [0, 2, 4].map((i) => ({ path: `data[${i}]`, reason: 'unknown' }));
    expect(await standin.detokenize(list, { lenient: true })).toEqual({
      data: ['no_tok', '1985-04-12', 'never_tok', '4111 1111 1111 1111', 'no_tok'],
      unapplied: expected,
    });
    const records = list.map((a, i) => ({ id: i, a }));
    const picked = await standin.detokenize(records, { fields: ['a'], lenient: true });
    expect(picked.data[1]).toEqual({ id: 1, a: '1985-04-12' });
    expect(picked.unapplied).toEqual(
      expected.map(({ path, reason }) => ({ path: `${path}.a`, reason })),
    );
    const { born: date } = await client(true).tokenize({ born: '1985-04-12' });
    const asSupport = client(false, { apiKey: support });
    await expect(
      asSupport.detokenize(
        [
          { id: 1, a: born! },
          { id: 2, a: date },
        ],
        { fields: ['a'] },
      ),
    ).rejects.toMatchObject({ path: 'data[1].a', kind: 'date' });
    await expect(asSupport.detokenize({ born: 'no_tok' })).rejects.toThrow(InvalidValueError);
  });

  /** Returns the status and the text of the answer. */
  async function post(data: string, more: Record<string, string> = {}) {
    const authorization = `Bearer ${service.api_key}`;
    const response = await fetch(`${service.url}/api/v1/tokenize`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json', ...more },
      body: `{"data":${data}}`,
    });
    return { status: response.status, text: await response.text() };
  }

  test('a list of records on the wire: numbers byte for byte, and only objects', async () => {
    const send = async (data: string) => (await post(data)).text;
    const odd = ' {"id" : 12345678901234567890, "x":[1.0, -0e1]}';
    expect(await send(`[${odd},{"email":null} ]`)).toContain(`{"data":[${odd},{"email":null} ]`);
    for (const item of ['7', 'null', '"a"', '[{"email":"ann@example.com"}]'])
      expect(JSON.parse(await send(`[{},${item}]`)).message).toBe(
        'data[1]: must be a JSON object: a record',
      );
    expect(JSON.parse(await send('"a"')).message).toBe(
      'data: must be a JSON object, or a list of objects',
    );
    expect(await send('[]')).toMatch(/^\{"data":\[\],/);
  });

  test('the fields of the policy, and requests that only this policy may serve', async () => {
    const ask = (apiKey: string, method = 'GET') =>
      fetch(`${service.url}/api/v1/policy`, {
        method,
        headers: { authorization: `Bearer ${apiKey}` },
      });
    const answer = await ask(support);
    const { version, fields } = (await answer.json()) as any;
    expect([answer.status, version, fields.length]).toEqual([200, 1, 8]);
    expect(fields).toContainEqual({ path: 'customer["full name"]', kind: 'word' });
    const tag = answer.headers.get('etag')!;
    expect(tag).toBe(`"${createHash('sha256').update(POLICY).digest('hex')}"`);
    const head = await ask(support, 'HEAD');
    expect([head.status, head.headers.get('etag'), await head.text()]).toEqual([200, tag, '']);
    expect((await ask('stk_wrong')).status).toBe(401);
    for (const wanted of [tag, '*', `"other", ${tag}`])
      expect((await post('{"id":1}', { 'if-match': wanted })).status).toBe(200);
    for (const wanted of ['"other"', `W/${tag}`, tag.slice(1, -1), ''])
      expect(await post('{"email":', { 'if-match': wanted })).toMatchObject({
        status: 412,
        text: expect.stringContaining('"precondition_failed"'),
      });
  });

  test('a vault without a policy gets no record', async () => {
    const other = await startService(await usualPlace());
    const standin = new Standin({ url: other.url, apiKey: other.api_key, policy: true });
    for (const data of [{ name: 'Ann Lee' }, [{ name: 'Ann Lee' }]])
      await expect(standin.tokenize(data)).rejects.toMatchObject({
        code: 'precondition_failed',
        message: expect.stringContaining('the vault has no policy; apply one'),
      });
    await expect(standin.policyInForce()).rejects.toMatchObject({ code: 'not_found' });
    await other.stop();
    other.place.remove();
    expect((await client(true).policyInForce()).fields[0]).toEqual({
      path: 'full_name',
      kind: 'text',
    });
  });
});
