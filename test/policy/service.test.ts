import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { postgresBin, query } from '../support/postgres.ts';
import {
  createClient,
  kinds,
  type NewClient,
  newPlace,
  type Service,
  startService,
  until,
} from '../support/service.ts';

const POLICY = `
version: 1
kinds:
  card: { shape: digits, keep_last: 4, suffix: false, mask: { show: ends, last: 4 } }
  mail: { shape: email, keep: domain, spelling: [trim, lower_case] }
  note: { shape: word, tokens: random }
fields:
  customer.email: mail
  customer["full name"]: text
  cards[*].number: card
  born: date
  note: note
rights:
  "*": { "*": full }
  support: { card: masked, mail: masked, date: masked, text: full }
  courier: { text: full }
`;

/** Numbers that JSON.parse would change, odd white space, escapes, and names like numbers. */
const RECORD = `{
  "id": 12345678901234567890, "10": 1.0, "9": [true, null, {"x": -0.50e+3}],
  "customer": {"email" : " Ann.Lee@Example.COM ","full name":"Ann \\u00c9lise \\"Lee\\"", "age": null},
  "cards":[{"number":"4111 1111 1111 1111","cvc":null},{"number":null},{"number":""}],
  "born": "1985-04-12", "note":"call\\nback", "memo": "not in the policy"
}`;

/** The status and text of the answer. */
async function send(
  { url }: Service,
  operation: string,
  data: string,
  apiKey: string,
  headers: Record<string, string> = {},
) {
  const response = await fetch(`${url}/api/v1/${operation}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${apiKey}`,
      'content-type': 'application/json',
      ...headers,
    },
    body: `{"data":${data}}`,
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

/** The text of `data` in an answer. */
function dataIn(text: string): string {
  const from = '{"data":'.length;
  return text.slice(from, text.search(/,"(?:unapplied|status|request_id)":/));
}

describe.skipIf(postgresBin === undefined || !kinds().includes('server'))('with a policy', () => {
  let service: Service;
  const clients: Record<string, NewClient> = {};
  const key = (name: string) => clients[name]!.api_key;

  beforeAll(async () => {
    const place = await newPlace('server', inject('postgresUrl'));
    service = await startService(place);
    for (const name of ['app', 'support', 'courier']) {
      const operations = name === 'app' ? 'tokenize,detokenize,lookup' : 'detokenize';
      clients[name] = await createClient(place, '--name', name, '--can', operations);
    }
    await query(place.env.DATABASE_URL!, 'insert into standin.policies (version, document) values (1, $1)', [POLICY]);
    await until(
      async () => dataIn((await send(service, 'tokenize', '{"a":1}', key('app'))).text) === '{"a":1}',
      'the policy is in force',
    );
  });

  afterAll(() => service?.stop());

  test('a whole record goes there and back, all else byte for byte', async () => {
    const { status, text } = await send(service, 'tokenize', RECORD, key('app'));
    expect([status, text.slice(0, 9)]).toEqual([200, '{"data":{']);
    const tokens = dataIn(text);
    expect(tokens).not.toContain('Ann');
    expect(tokens).toMatch(/"number":"\d{4} \d{4} \d{4} 1111"/);
    expect(tokens).toContain('"id": 12345678901234567890, "10": 1.0, "9": [true, null, {"x": -0.50e+3}]');
    const back = await send(service, 'detokenize', tokens, key('app'));
    // The uniform spelling of the address is what comes back.
    expect(dataIn(back.text)).toBe(
      RECORD.replace('" Ann.Lee@Example.COM "', '"ann.lee@example.com"')
        .replace('\\u00c9', 'É'),
    );
  });
});
