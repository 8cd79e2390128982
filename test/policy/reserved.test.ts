import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { send } from '../support/http.ts';
import { governed } from '../support/policy.ts';
import { until } from '../support/service.ts';

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
const can = ['--can', 'tokenize,detokenize,lookup'];

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
  ...['\0', '', 'ann@example.com', '2125550123', '1987-06-05', '"\\"\\"\\"\\"\\"'],
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
  fc.constantFrom<Record<string, string>>(
    { 'if-match': '*' },
    { 'if-match': '"x"' },
    { 'content-type': 'text/plain' },
  ),
);

const at = governed(
  undefined,
  { masked: can, none: can, tenant: [...can, '--space', 'tenant'] },
  { NODE_OPTIONS: `--import ${SPY}`, BODY_LIMIT: '262144' },
);

/** The response's bytes and what was reserved for it, as the service said. */
async function saidOf(id: string): Promise<{ bytes: number; reserved: number }> {
  const line = new RegExp(`^\\{"response":"${id}".*\\}$`, 'm');
  const said = () => line.exec(at.service.output().slice(-100_000));
  await until(() => said() !== null, `what the service says of ${id}`);
  return JSON.parse(said()![0]);
}

/** @param endpoints those that have a success, too */
async function neverExceeds(endpoints: readonly string[]): Promise<void> {
  const tokens: string[] = [];
  for (const who of ['app', 'tenant'])
    for (const one of VALUES)
      tokens.push((await at.send('tokenize', { values: [one] }, who)).body.data.values[0]);
  const requests = fc
    .constantFrom(...ENDPOINTS)
    .chain((to) =>
      fc.tuple(fc.constant(to), dataOf(value(tokens), to), fc.constantFrom(...CLIENTS), headers),
    );
  const successes = new Set<string>();
  const property = fc.asyncProperty(requests, async ([to, data, who, more]) => {
    const service = { ...at.service, api_key: at.keys[who]! };
    const [method, body] = to === 'policy' ? ['GET'] : ['POST', JSON.stringify({ data })];
    const { status, headers, text } = await send(service, `/api/v1/${to}`, body, more, method);
    const { bytes, reserved } = await saidOf(headers.get('x-request-id')!);
    expect(bytes).toBe(Buffer.byteLength(text));
    expect(bytes).toBeLessThanOrEqual(status === 200 ? reserved : MOST_OF_ERROR);
    if (status === 200) successes.add(to);
  });
  await fc.assert(property, { numRuns: 500 });
  expect([...successes].sort()).toEqual([...endpoints].sort());
}

test('a response never has more bytes than its request has reserved: without a policy', () =>
  neverExceeds(ENDPOINTS.filter((to) => to !== 'policy')));

test('a large response reserves its values and its request, and nothing twice', async () => {
  const { data } = (await at.send('tokenize', { v: VALUES[0] })).body;
  for (const count of [8, 12]) {
    const asked = { v: Array(count).fill(data.v) };
    const { headers } = await at.send('detokenize', asked);
    const { reserved } = await saidOf(headers.get('x-request-id')!);
    const values = count * 6 * 40_000;
    expect(reserved).toBe(values + JSON.stringify({ data: asked }).length + 512);
  }
});

test('a response never has more bytes than its request has reserved: by any right of a policy', async () => {
  await at.apply(POLICY);
  await neverExceeds(ENDPOINTS);
});
