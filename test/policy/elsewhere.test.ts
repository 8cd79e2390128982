import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ask, stateOf } from '../support/ops.ts';
import { governed } from '../support/policy.ts';
import { runCli, scrape, until } from '../support/service.ts';

const FIELDS = 'version: 1\nfields:\n  customer.email: email\n  cards[*].number: digits\n';
/** The record that the first client of the README sends. */
const RECORD = { email: 'ann@example.com', name: 'Ann Lee' };
const MIXED = { customer: { email: 'ann@example.com' }, memo: 'call Ann', id: 7, note: '' };
const REFUSAL =
  'must not be a string: the policy does not name this path and refuses strings elsewhere; leave it out, or ask an operator to add the path to the policy';
const OPERATIONS = ['tokenize', 'detokenize', 'lookup'] as const;

const at = governed(undefined);
const { send, apply } = at;
const strings = ({ headers }: { headers: Headers }) => headers.get('standin-strings');
const json = async (path: string) => JSON.parse((await ask(at.service.opsUrl + path)).text);
const clientId = async () =>
  (await stateOf(at.service.opsUrl)).clients!.shown.find(({ name }) => name === 'app')!.client_id;

test('no policy: spans of kinds are refused, and texts have no tokens to find', async () => {
  const spans = [{ start: 0, end: 3, kind: 'a' }];
  const { status, body } = await send('text/tokenize', { text: 'Ann', spans });
  expect(status).toBe(400);
  expect(body.message).toContain('data.spans[0].kind: this vault has no policy');
  const headers = { 'if-match': '*' };
  expect((await send('tokenize', RECORD, 'app', headers)).status, 'no policy is not any').toBe(412);
  const { body: back } = await send('text/detokenize', { text: 'no token' });
  expect(back.data).toEqual({ text: 'no token' });
});

test('strings elsewhere are not counted without a policy, nor under one without fields', async () => {
  for (const document of [undefined, 'version: 1\nkinds: { card: { shape: digits } }\n']) {
    if (document !== undefined) await apply(document);
    const made = await send('tokenize', RECORD);
    const back = await send('detokenize', made.body.data);
    expect([made, back].map(strings)).toEqual([null, null]);
    expect(back.body.data).toEqual(RECORD);
  }
  const counts = await scrape(at.service.opsUrl, 'standin_client_strings_total');
  expect(new Set(Object.values(counts))).toEqual(new Set([0]));
});

test('pass: every response says how many strings did', async () => {
  await apply(`${FIELDS}elsewhere: pass\n`);
  const clear = await send('tokenize', RECORD);
  expect([clear.body.data, strings(clear)]).toEqual([RECORD, 'replaced=0, passed=2']);
  const made = await send('tokenize', MIXED);
  expect(strings(made)).toBe('replaced=1, passed=1');
  const email = expect.stringMatching(/_tok$/);
  expect(made.body.data).toEqual({ ...MIXED, customer: { email } });
  const back = await send('detokenize', [made.body.data, RECORD]);
  expect([back.body.data, strings(back)]).toEqual([[MIXED, RECORD], 'replaced=1, passed=3']);
  const found = await send('lookup', MIXED);
  expect([found.body.data, strings(found)]).toEqual([made.body.data, 'replaced=1, passed=1']);
  const left = { ...made.body.data, cards: [{ number: 'never given_tok' }] };
  const lenient = await send('detokenize', left, 'app', { prefer: 'handling=lenient' });
  expect(strings(lenient), 'what is left is not replaced').toBe('replaced=1, passed=1');
  const values = await send('tokenize', { values: ['a', 'b', ''] });
  expect(strings(values)).toBe('replaced=3, passed=0');
  const record = await send('tokenize', { values: ['a', 'b'], memo: 'c' });
  expect(strings(record), 'a record, not a list of values').toBe('replaced=0, passed=3');
  const { paths, components } = await json('/openapi.json');
  const { pattern } = components.headers['Standin-Strings'].schema;
  for (const answer of [clear, back, values]) expect(strings(answer)).toMatch(RegExp(pattern));
  for (const operation of OPERATIONS) {
    const { headers } = paths[`/api/v1/${operation}`].post.responses[200];
    expect(headers).toHaveProperty('Standin-Strings');
  }
});

test('pass: strings are counted by client, and a request that passed some is known by it', async () => {
  const id = await clientId();
  const label = `client_id="${id}",outcome=`;
  const counts = await scrape(at.service.opsUrl, 'standin_client_strings_total');
  expect(counts).toMatchObject({ [`${label}"replaced"`]: 7, [`${label}"passed"`]: 11 });
  const { all } = await json('/console/requests');
  const passed = all.slice(0, 7).map((one: any) => `${one.values} ${one.passed}`);
  expect(passed.reverse()).toEqual(['0 2', '1 1', '1 3', '1 1', '1 1', '3 0', '0 3']);
  const ofClient = async () => {
    const { clients } = await stateOf(at.service.opsUrl);
    return clients!.shown.find((one) => one.client_id === id)!.strings;
  };
  await until(async () => (await ofClient())?.replaced === 7, 'a sample has the counts');
  const sum = { replaced: 7, passed: 11 };
  expect(await ofClient()).toEqual(sum);
  expect(await json(`/console/client?id=${id}`)).toHaveProperty('strings', sum);
});

test('pass: the log has the name that a string nearly has, once and without a value', async () => {
  const secret = 'secret ann@example.com';
  for (let i = 0; i < 3; i++)
    await send('tokenize', { custmer: { email: secret }, customer: { Email: secret } });
  await send('detokenize', { Customer: { email: secret }, far: secret, [secret]: 'x' });
  const last = (await send('tokenize', {})).headers.get('x-request-id')!;
  await until(() => at.service.output().includes(last), 'the lines of the log');
  const near = at.service.output().split('\n');
  const [first, second, ...more] = near
    .filter((line) => line.includes('"found"'))
    .map((line) => JSON.parse(line));
  const msg = 'a request has a field that is nearly one of the policy: is it misspelt?';
  const about = { level: 'warn', client_id: await clientId(), policy: 2, msg };
  expect(first).toMatchObject({ ...about, path: 'customer', found: 'custmer' });
  expect(second).toMatchObject({ ...about, path: 'customer.email', found: 'Email' });
  expect([more, at.service.output().includes(secret)]).toEqual([[], false]);
});

test('refuse: a string is named by its path and never by its text', async () => {
  await apply(`${FIELDS}elsewhere: refuse\n`);
  for (const operation of OPERATIONS)
    for (const [data, path] of [
      [RECORD, 'data.email'],
      [[{ id: 1 }, MIXED], 'data[1].memo'],
      [{ customer: { emails: ['x'] } }, 'data.customer.emails[0]'],
    ] as const) {
      const { status, body } = await send(operation, data);
      const message = `${path}: ${REFUSAL}`;
      expect([status, body]).toEqual([400, { error: 'invalid_type', message }]);
    }
  const { memo: _, ...rest } = MIXED;
  const made = await send('tokenize', rest);
  expect(strings(made)).toBe('replaced=1, passed=0');
  expect((await send('detokenize', made.body.data)).body.data).toEqual(rest);
  expect((await send('tokenize', { values: ['a'] })).status).toBe(200);
});

test('tokenize: strings elsewhere become texts, and detokenize takes nothing else there', async () => {
  await apply(`${FIELDS}elsewhere: tokenize\n`);
  const data = [MIXED, { ...RECORD, list: [1.5, ['x', null]], deep: { '': { on: true } } }];
  const made = await send('tokenize', data);
  expect([made.status, strings(made)]).toEqual([200, 'replaced=5, passed=0']);
  const { memo, id, note } = made.body.data[0];
  expect([memo, id, note]).toEqual([expect.stringMatching(/^[a-z]{4} [a-z]{3}_tok$/), 7, '']);
  const back = await send('detokenize', made.body.data);
  expect([back.body.data, strings(back)]).toEqual([data, 'replaced=5, passed=0']);
  expect((await send('lookup', data)).body.data).toEqual(made.body.data);
  const clear = await send('detokenize', { memo: 'call Ann' });
  expect(clear.body.message).toBe('data.memo: is not a known token');
  const asText = await send('tokenize', { values: [MIXED.memo] });
  expect(asText.body.data.values).toEqual([memo]);
});

test('a version from before elsewhere existed passes, and cannot be applied again', async () => {
  await apply(FIELDS);
  const clear = await send('tokenize', RECORD);
  expect([clear.body.data, strings(clear)]).toEqual([RECORD, 'replaced=0, passed=2']);
  const { body } = await send('policy', undefined);
  expect(body).toMatchObject({ version: 5, elsewhere: 'pass' });
  const { place } = at.service;
  writeFileSync(join(place.folder, 'policy.yaml'), `${FIELDS}# the same, but new\n`);
  const again = await runCli(['policy', 'apply', 'policy.yaml'], place);
  expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('2:1: say what')]);
});
