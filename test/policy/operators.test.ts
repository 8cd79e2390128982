import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ask, startWithOps, stateOf } from '../support/ops.ts';
import {
  call,
  createClient,
  type NewClient,
  type Place,
  runCli,
  runJson,
  type Service,
  until,
  usualPlace,
} from '../support/service.ts';
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

describe('what operators see of spaces and kinds', () => {
  let place: Place;
  let service: Service & { readonly opsUrl: string };
  let tenant: NewClient;

  beforeAll(async () => {
    place = await usualPlace();
    service = await startWithOps(place);
    await call(service, 'tokenize', { a: 'before the policy' });
    expect((await runCli(['verify'], place)).stdout).toBe('1 record opened, 0 of them bad.\n');
    const file = join(place.folder, 'policy.yaml');
    writeFileSync(file, POLICY);
    await runJson(place, 'policy', 'apply', file, '--yes');
    tenant = await createClient(place, '--name', 'tenant', '--space', 'acme');
    await until(
      async () => (await call(service, 'tokenize', { age: 42 })).status === 200,
      'the policy is in force',
    );
    for (const apiKey of [service.api_key, tenant.api_key])
      expect((await call(service, 'tokenize', RECORD, apiKey)).status).toBe(200);
  });

  afterAll(async () => {
    await service?.stop();
    place?.remove();
  });

  const counts = (space: string, hasClient = true) =>
    ['card', 'text'].map((kind) => ({ space, kind, has_client: hasClient }));

  test('verify counts records by space and kind', async () => {
    const { by_kind: byKind, bad } = await runJson(place, 'verify');
    const records = [1, 2, 1, 1];
    const all = [...counts(''), ...counts('acme')].map((one, i) => ({
      ...one,
      records: records[i],
    }));
    expect([byKind, bad]).toEqual([all, 0]);
    expect((await runCli(['verify'], place)).stdout).toBe(
      [
        '5 records opened, 0 of them bad.',
        'SPACE  KIND  RECORDS',
        '-      card  1',
        '-      text  2',
        'acme   card  1',
        'acme   text  1',
        '',
      ].join('\n'),
    );
  });

  test('metrics count values by space and kind', async () => {
    const support = await createClient(place, '--name', 'support', '--can', 'detokenize,lookup');
    const { body } = await call(service, 'tokenize', RECORD);
    await call(service, 'detokenize', body.data);
    await call(service, 'detokenize', { card: body.data.card }, support.api_key);
    expect((await call(service, 'detokenize', body.data, support.api_key)).status).toBe(403);
    await call(service, 'lookup', RECORD, support.api_key);
    const text = await (await fetch(`${service.opsUrl}/metrics`)).text();
    expect(text.match(/(?<=^standin_values_total).*/gm)?.toSorted()).toEqual([
      '{operation="detokenize",kind="card"} 2',
      '{operation="detokenize",kind="text"} 1',
      '{operation="lookup",kind="card"} 1',
      '{operation="lookup",kind="text"} 1',
      '{operation="tokenize",kind="card"} 2',
      '{operation="tokenize",kind="text"} 2',
      '{operation="tokenize",space="acme",kind="card"} 1',
      '{operation="tokenize",space="acme",kind="text"} 1',
      '{operation="tokenize"} 1',
    ]);
  });

  test('the console shows spaces, rights and the policy', async () => {
    const { clients, policy } = await stateOf(service.opsUrl);
    expect(policy).toEqual({ version: 1, tag: expect.any(String), problem: null });
    const seen = (name: string) => clients!.shown.find((one) => one.name === name);
    expect(seen('tenant')).toMatchObject({
      space: 'acme',
      sees: [{ right: 'full', kinds: ['text', 'card'], others: 0 }],
    });
    expect(seen('support')).toMatchObject({
      ...{ space: '', can_lookup: true },
      sees: [
        { right: 'masked', kinds: ['card'], others: 0 },
        { right: 'none', kinds: ['text'], others: 0 },
      ],
    });
    const of = async (path: string) => JSON.parse((await ask(service.opsUrl + path)).text);
    expect(await of('/console/policy')).toMatchObject({
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
    expect(await of(`/console/client?id=${id}`)).toMatchObject({ space: '', sees });
  });

  test('the console says of an API key what its client sees, and nothing without one', async () => {
    const { api_key: apiKey, client_id: id } = await createClient(place, '--space', 'globex');
    const of = (headers: Record<string, string>) =>
      ask(`${service.opsUrl}/console/playground/api-key`, 'POST', headers);
    const origin = service.opsUrl;
    const found = await of({ origin, 'standin-api-key': apiKey });
    expect(JSON.parse(found.text)).toMatchObject({ client_id: id, space: 'globex' });
    expect(found.text).not.toContain(apiKey);
    expect((await of({ origin })).status).toBe(404);
    expect((await of({ origin, 'standin-api-key': `${apiKey}x` })).status).toBe(404);
    expect((await of({ 'standin-api-key': apiKey, origin: 'http://example.com' })).status).toBe(
      403,
    );
    await runJson(place, 'client', 'disable', id);
    expect((await of({ origin, 'standin-api-key': apiKey })).status).toBe(404);
  });

  test('the playground passes a wish for lenient handling on, and its answer back', async () => {
    const sent = (headers: Record<string, string>) =>
      ask(
        `${service.opsUrl}/console/playground/detokenize`,
        'POST',
        {
          ...{ 'content-type': 'application/json', origin: service.opsUrl },
          ...{ 'standin-api-key': service.api_key, ...headers },
        },
        '{"data":{"name":"nobody_tok"}}',
      );
    expect((await sent({})).status).toBe(400);
    const { status, headers, text } = await sent({ prefer: 'handling=lenient' });
    expect([status, headers['preference-applied']]).toEqual([200, 'handling=lenient']);
    expect(JSON.parse(text).unapplied).toEqual([{ path: 'data.name', reason: 'unknown' }]);
  });

  test('verify names a space that no client has, and does not fail', async () => {
    await sql(place, 'delete from standin.api_keys where client_id = $1', [tenant.client_id]);
    await sql(place, 'delete from standin.clients where client_id = $1', [tenant.client_id]);
    const { by_kind: byKind } = await runJson(place, 'verify');
    expect(byKind.slice(2)).toEqual(counts('acme', false).map((one) => ({ ...one, records: 1 })));
    const { code, stdout } = await runCli(['verify'], place);
    expect([code, stdout.split('\n').slice(6)]).toEqual([
      0,
      [
        'No client is in the space acme, so nobody can use its tokens. To make one: standin client create --name NAME --space acme',
        '',
      ],
    ]);
    await createClient(place, '--name', 'tenant again', '--space', 'acme');
    expect((await runCli(['verify'], place)).stdout).not.toContain('No client');
  });

  test.each(['pass', 'tokenize', 'refuse'])(
    'check --record says what the service does: elsewhere %s',
    async (elsewhere) => {
      const records = [
        { name: 'Ann Lee', Card: '4242', note: { name: 'b', list: ['c', ''] }, age: 42 },
        { card: '4242 4242 4242 4242', name: null, '': 'd', 'a.b': ['e', { card: 'f' }] },
      ];
      const policy = POLICY.replace('elsewhere: pass', `elsewhere: ${elsewhere}`);
      writeFileSync(join(place.folder, 'policy.yaml'), policy);
      await runJson(place, 'policy', 'apply', 'policy.yaml', '--yes');
      const { version } = await runJson(place, 'policy', 'show');
      const tag = async () => JSON.parse((await ask(`${service.opsUrl}/console/policy`)).text);
      await until(async () => (await tag()).version === version, 'the policy on the node');
      writeFileSync(join(place.folder, 'records.json'), JSON.stringify(records));
      const check = ['policy', 'check', 'policy.yaml', '--record', 'records.json'];
      const { strings } = await runJson(place, ...check);
      const counted = (is: (becomes: string) => boolean) =>
        strings.reduce(
          (sum: number, one: { becomes: string; strings: number }) =>
            sum + (is(one.becomes) ? one.strings : 0),
          0,
        );
      const refused = counted((one) => one.startsWith('refused'));
      const inClear = counted((one) => one === 'in clear');
      const { status, headers } = await call(service, 'tokenize', records);
      expect([status, refused]).toEqual(elsewhere === 'refuse' ? [400, 6] : [200, 0]);
      if (status === 200)
        expect(headers.get('standin-strings')).toBe(`replaced=${8 - inClear}, passed=${inClear}`);
      expect(inClear).toBe(elsewhere === 'pass' ? 6 : 0);
    },
  );
});
