import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Standin } from '#client';
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

  test('masks come as the policy has them', async () => {
    const tokens = await client(true).tokenize({ card: '4111 1111 1111 1234' });
    const masked = await client(true, { apiKey: support }).detokenize(tokens);
    expect(masked).toEqual({ card: '**** 1234' });
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

  test('policyInForce has the fields of the policy, and says where there is none', async () => {
    const { version, fields } = await client(true).policyInForce();
    expect([version, fields[0]]).toEqual([1, { path: 'full_name', kind: 'text' }]);
    const other = await startService(await usualPlace());
    try {
      const standin = new Standin({ url: other.url, apiKey: other.api_key });
      await expect(standin.policyInForce()).rejects.toMatchObject({ code: 'not_found' });
    } finally {
      await other.stop();
      other.place.remove();
    }
  });
});
