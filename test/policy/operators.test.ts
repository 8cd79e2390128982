import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ask, stateOf } from '../support/ops.ts';
import { governed } from '../support/policy.ts';
import { createClient, runCli, runJson, scrape } from '../support/service.ts';
import { sql } from '../support/vault.ts';

const POLICY = `
version: 1
kinds:
  card: { shape: digits, keep_last: 4 }
fields:
  name: text
  card: card
elsewhere: pass
rights:
  support: { card: masked }
  "*": { "*": full }
`;
const RECORD = { name: 'Ann Lee', card: '4242 4242 4242 4242', age: 42 };

const at = governed(undefined, {
  tenant: ['--space', 'acme'],
  support: ['--can', 'detokenize,lookup'],
});
const { send } = at;
const json = async (path: string) => JSON.parse((await ask(at.service.opsUrl + path)).text);
const verified = async () => (await runCli(['verify'], at.service.place)).stdout;

test('verify counts records by space and kind', async () => {
  const { place } = at.service;
  await send('tokenize', { a: 'before the policy' });
  expect(await verified()).toBe('1 record opened, 0 of them bad.\n');
  await at.apply(POLICY);
  await send('tokenize', RECORD);
  expect(await verified()).toContain('\n-      card  1\n');
  await send('tokenize', RECORD, 'tenant');
  const row = (space: string, kind: string, records: number) => ({
    ...{ space, kind, has_client: true, records },
  });
  const { by_kind: byKind, bad } = await runJson(place, 'verify');
  const ofTenant = [row('acme', 'card', 1), row('acme', 'text', 1)];
  expect([byKind, bad]).toEqual([[row('', 'card', 1), row('', 'text', 2), ...ofTenant], 0]);
  const lines = ['5 records opened, 0 of them bad.', 'SPACE  KIND  RECORDS'];
  const rows = ['-      card  1', '-      text  2', 'acme   card  1', 'acme   text  1'];
  expect(await verified()).toBe([...lines, ...rows, ''].join('\n'));
});

test('metrics count values by space and kind', async () => {
  const { data } = (await send('tokenize', RECORD)).body;
  await send('detokenize', data);
  await send('detokenize', { card: data.card }, 'support');
  expect((await send('detokenize', data, 'support')).status).toBe(403);
  await send('lookup', RECORD, 'support');
  expect(await scrape(at.service.opsUrl, 'standin_values_total')).toEqual({
    'operation="detokenize",kind="card"': 2,
    'operation="detokenize",kind="text"': 1,
    'operation="lookup",kind="card"': 1,
    'operation="lookup",kind="text"': 1,
    'operation="tokenize",kind="card"': 2,
    'operation="tokenize",kind="text"': 2,
    'operation="tokenize",space="acme",kind="card"': 1,
    'operation="tokenize",space="acme",kind="text"': 1,
    'operation="tokenize"': 1,
  });
});

test('the console shows spaces, rights and the policy', async () => {
  const { clients, policy } = await stateOf(at.service.opsUrl);
  expect(policy).toEqual({ version: 1, tag: expect.any(String), problem: null });
  const seen = (name: string) => clients!.shown.find((one) => one.name === name);
  expect(seen('tenant')).toMatchObject({ space: 'acme' });
  expect(seen('support')).toMatchObject({ space: '', can_lookup: true });
  expect(await json('/console/policy')).toMatchObject({
    version: 1,
    kinds: [{ name: 'text' }, { name: 'card', words: 'digits, keep_last 4' }],
    fields: [
      { path: 'name', steps: ['name'], kind: 'text' },
      { path: 'card', steps: ['card'], kind: 'card' },
    ],
  });
  const sees = [
    { kind: 'text', right: 'none', example: null },
    { kind: 'card', right: 'masked', example: '**** 4242' },
  ];
  const id = seen('support')!.client_id;
  expect(await json(`/console/client?id=${id}`)).toMatchObject({ space: '', sees });
});

const playground = (to: string, headers: Record<string, string>, data?: string) =>
  ask(`${at.service.opsUrl}/console/playground/${to}`, 'POST', headers, data);

test('the console says of an API key what its client sees, and nothing without one', async () => {
  const { place, opsUrl: origin } = at.service;
  const { api_key: apiKey, client_id: id } = await createClient(place, '--space', 'globex');
  const found = await playground('api-key', { origin, 'standin-api-key': apiKey });
  expect(JSON.parse(found.text)).toMatchObject({ client_id: id, space: 'globex' });
  expect(found.text).not.toContain(apiKey);
  const status = async (key: object, from = origin) =>
    (await playground('api-key', { origin: from, ...key })).status;
  expect(await status({})).toBe(404);
  expect(await status({ 'standin-api-key': `${apiKey}x` })).toBe(404);
  expect(await status({ 'standin-api-key': apiKey }, 'http://example.com')).toBe(403);
  await runJson(place, 'client', 'disable', id);
  expect(await status({ 'standin-api-key': apiKey })).toBe(404);
});

test('the playground passes a wish for lenient handling on, and its answer back', async () => {
  const json = { 'content-type': 'application/json', origin: at.service.opsUrl };
  const sent = (headers: object) => {
    const all = { ...json, 'standin-api-key': at.keys.app!, ...headers };
    return playground('detokenize', all, '{"data":{"name":"nobody_tok"}}');
  };
  expect((await sent({})).status).toBe(400);
  const { status, headers, text } = await sent({ prefer: 'handling=lenient' });
  expect([status, headers['preference-applied']]).toEqual([200, 'handling=lenient']);
  expect(JSON.parse(text).unapplied).toEqual([{ path: 'data.name', reason: 'unknown' }]);
});

test('verify names a space that no client has, and does not fail', async () => {
  const { place } = at.service;
  const ofTenant = "where client_id = (select client_id from standin.clients where space = 'acme')";
  await sql(place, `delete from standin.api_keys ${ofTenant}`);
  await sql(place, "delete from standin.clients where space = 'acme'");
  const { by_kind: byKind } = await runJson(place, 'verify');
  const lost = { space: 'acme', has_client: false, records: 1 };
  expect(byKind.slice(2)).toEqual(['card', 'text'].map((kind) => ({ ...lost, kind })));
  const { code, stdout } = await runCli(['verify'], place);
  expect([code, stdout.split('\n').slice(6)]).toEqual([
    0,
    [
      'No client is in the space acme, so nobody can use its tokens. To make one: standin client create --name NAME --space acme',
      '',
    ],
  ]);
  await createClient(place, '--name', 'tenant again', '--space', 'acme');
  expect(await verified()).not.toContain('No client');
});

test.each([
  ['pass', [200, 0, 6], 'replaced=2, passed=6'],
  ['tokenize', [200, 0, 0], 'replaced=8, passed=0'],
  ['refuse', [400, 6, 0], null],
])('check --record says what the service does: elsewhere %s', async (elsewhere, ...expected) => {
  const { place } = at.service;
  const records = [
    { name: 'Ann Lee', Card: '4242', note: { name: 'b', list: ['c', ''] }, age: 42 },
    { card: '4242 4242 4242 4242', name: null, '': 'd', 'a.b': ['e', { card: 'f' }] },
  ];
  const policy = POLICY.replace('elsewhere: pass', `elsewhere: ${elsewhere}`);
  await at.apply(policy);
  writeFileSync(join(place.folder, 'policy.yaml'), policy);
  writeFileSync(join(place.folder, 'records.json'), JSON.stringify(records));
  const check = ['policy', 'check', 'policy.yaml', '--record', 'records.json'];
  const { strings } = await runJson(place, ...check);
  const counted = (becomes: RegExp) =>
    strings
      .filter((one: any) => becomes.test(one.becomes))
      .reduce((sum: number, one: any) => sum + one.strings, 0);
  const { status, headers } = await send('tokenize', records);
  const counts = [status, counted(/^refused/), counted(/^in clear$/)];
  expect([counts, headers.get('standin-strings')]).toEqual(expected);
});
