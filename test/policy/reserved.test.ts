import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { applyPolicy } from '../support/policy.ts';
import { postgresBin } from '../support/postgres.ts';
import {
  createClient,
  kinds,
  newPlace,
  type Place,
  type Service,
  startService,
  until,
} from '../support/service.ts';

const SPY = pathToFileURL(join(import.meta.dirname, '../support/reserved.mjs')).href;

const POLICY = `
version: 1
kinds:
  mail: { shape: email, normalize: [trim, lower_case] }
  phone: { shape: digits, normalize: [e164], country: US }
  person: { shape: word }
fields:
  email: mail
  phone: phone
  born: date
  list[*]: text
  '["10"]': person
elsewhere: tokenize
rights:
  "*": { "*": full }
  masked: { "*": masked }
  none: { date: full }
`;
const CLIENTS = ['app', 'masked', 'none', 'tenant'] as const;

/** Without values, a response has its error only, whose path may have 15 names of 256 bytes. */
const MOST_OF_ERROR = 32_768;

/** Values whose responses are far larger than their tokens. */
const VALUES = [
  ...[
    '\0'.repeat(40_000),
    '"'.repeat(65_536),
    '\0'.repeat(300),
    'é"\n'.repeat(90),
    '😀'.repeat(255),
  ],
  ...Array.from({ length: 6 }, (_, i) => `${i}`.repeat(60_000)),
  ...['\0', '', 'ann@example.com', '2125550123', '1985-04-12', '"\\"\\"\\"\\"\\"'],
];

const name = fc.oneof(
  fc.constantFrom('email', 'phone', 'born', 'list', 'a', '10', 'values', 'text', '"'.repeat(256)),
  fc.constant('\0'.repeat(256)),
  fc.string({ unit: 'binary', maxLength: 8 }),
);
const value = (tokens: readonly string[]) =>
  fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...tokens) },
    { weight: 2, arbitrary: fc.constantFrom('', 'x', 'abc_tok', ...VALUES.slice(-4)) },
    fc.string({ unit: 'binary', maxLength: 20 }),
  );

/** Anything that may stand in `data`: for an endpoint of texts, mostly a text. */
function dataOf(text: fc.Arbitrary<string>, to: string): fc.Arbitrary<unknown> {
  const list = fc.oneof(
    fc.array(text, { maxLength: 40 }),
    fc.tuple(text, fc.nat(3_000)).map(([one, count]) => Array(count).fill(one)),
  );
  const inner = fc.oneof({ weight: 5, arbitrary: text }, list, fc.dictionary(name, text));
  const record = fc.dictionary(name, inner, { maxKeys: 6 });
  const nested = fc
    .tuple(fc.array(name, { maxLength: 16 }), inner)
    .map(([names, json]) => names.reduce<unknown>((below, one) => ({ [one]: below }), json));
  const running = list.map((all) => all.join(' '));
  const span = fc
    .nat(9)
    .map((i) => ({ start: i * 3, end: i * 3 + 2, kind: i === 9 ? 'person' : 'word' }));
  const spans = fc.uniqueArray(span, { selector: ({ start }) => start });
  const restored = fc.record({ text: running, more: fc.boolean() }, { requiredKeys: ['text'] });
  const spanned = fc.record({ text: running.map((all) => all.padEnd(30)), spans });
  const any = fc.oneof(
    record,
    nested,
    fc.array(record, { maxLength: 5 }),
    list.map((values) => ({ values })),
    fc.jsonValue(),
  );
  if (!to.startsWith('text/')) return any;
  const texts = to === 'text/tokenize' ? spanned : restored;
  return fc.oneof({ weight: 4, arbitrary: texts }, any);
}

const ENDPOINTS = [
  ...['detokenize', 'text/detokenize', 'tokenize', 'text/tokenize', 'lookup', 'policy'],
] as const;
const headers = fc.oneof(
  { weight: 4, arbitrary: fc.constant({ prefer: 'handling=lenient' }) },
  { weight: 2, arbitrary: fc.constant({}) },
  fc.constantFrom({ 'if-match': '*' }, { 'if-match': '"x"' }, { 'content-type': 'text/plain' }),
);

describe.skipIf(postgresBin === undefined || !kinds().includes('server'))('a response', () => {
  let place: Place;
  let service: Service;
  const keys: Record<string, string> = {};
  const post = async (
    to: string,
    data: unknown,
    who: string,
    more: { readonly [name: string]: string } = {},
  ) => {
    const response = await fetch(`${service.url}/api/v1/${to}`, {
      headers: {
        authorization: `Bearer ${keys[who]}`,
        'content-type': 'application/json',
        ...more,
      },
      ...(to === 'policy' ? {} : { method: 'POST', body: JSON.stringify({ data }) }),
    });
    const { status, headers } = response;
    return { status, id: headers.get('x-request-id')!, body: await response.text() };
  };

  beforeAll(async () => {
    place = await newPlace('server', inject('serverUrl'));
    service = await startService(place, { NODE_OPTIONS: `--import ${SPY}`, BODY_LIMIT: '262144' });
    for (const who of CLIENTS) {
      const space = who === 'tenant' ? ['--space', 'tenant'] : [];
      const can = ['--can', 'tokenize,detokenize,lookup'];
      keys[who] = (await createClient(place, '--name', who, ...can, ...space)).api_key;
    }
  });
  afterAll(async () => {
    await service?.stop();
    place?.remove();
  });

  /** The response's bytes and what was reserved for it, as the service said. */
  async function saidOf(id: string): Promise<{ bytes: number; reserved: number }> {
    const line = new RegExp(`^\\{"response":"${id}".*\\}$`, 'm');
    const said = () => line.exec(service.output().slice(-100_000));
    await until(() => said() !== null, `what the service says of ${id}`);
    return JSON.parse(said()![0]);
  }

  /** @param endpoints those that have a success, too */
  async function neverExceeds(endpoints: readonly string[]): Promise<void> {
    const tokens: string[] = [];
    for (const who of ['app', 'tenant'])
      for (const one of VALUES) {
        const { body } = await post('tokenize', { values: [one] }, who);
        tokens.push(JSON.parse(body).data.values[0]);
      }
    const requests = fc
      .constantFrom(...ENDPOINTS)
      .chain((to) =>
        fc.tuple(fc.constant(to), dataOf(value(tokens), to), fc.constantFrom(...CLIENTS), headers),
      );
    const successes = new Set<string>();
    const property = fc.asyncProperty(requests, async (request) => {
      const { status, id, body } = await post(...request);
      const { bytes, reserved } = await saidOf(id);
      expect(bytes).toBe(Buffer.byteLength(body));
      expect(bytes).toBeLessThanOrEqual(status === 200 ? reserved : MOST_OF_ERROR);
      if (status === 200) successes.add(request[0]);
    });
    await fc.assert(property, { numRuns: 500 });
    expect([...successes].sort()).toEqual([...endpoints].sort());
  }

  test('never has more bytes than its request has reserved: without a policy', () =>
    neverExceeds(ENDPOINTS.filter((to) => to !== 'policy')));

  test('never has more bytes than its request has reserved: by any right of a policy', async () => {
    await applyPolicy(service, 1, POLICY);
    await until(
      async () => (await post('policy', '', 'app')).status === 200,
      'the policy in force',
    );
    await neverExceeds(ENDPOINTS);
  });
});
