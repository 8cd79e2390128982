import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { ask, startWithOps, stateOf } from '../support/ops.ts';
import { applyPolicy } from '../support/policy.ts';
import { postgresBin } from '../support/postgres.ts';
import {
  type Answer,
  call,
  createClient,
  kinds,
  type NewClient,
  newPlace,
  type Place,
  runCli,
  type Service,
  scrape,
  until,
} from '../support/service.ts';

const FIELDS = 'version: 1\nfields:\n  customer.email: email\n  cards[*].number: digits\n';
/** What the first client of the README sends. */
const RECORD = { email: 'ann@example.com', name: 'Ann Lee' };
const MIXED = { customer: { email: 'ann@example.com' }, memo: 'call Ann', id: 7, note: '' };
const REFUSAL =
  'must not be a string: the policy does not name this path and refuses strings elsewhere; leave it out, or ask an operator to add the path to the policy';

const OPERATIONS = ['tokenize', 'detokenize', 'lookup'] as const;
const strings = ({ headers }: Answer) => headers.get('standin-strings');

const RUNS = postgresBin !== undefined && kinds().includes('server');

describe.skipIf(!RUNS)('strings that the policy does not name', () => {
  let place: Place;
  let service: Service & { readonly opsUrl: string };
  let app: NewClient;
  let version = 0;

  beforeAll(async () => {
    place = await newPlace('server', inject('serverUrl'));
    service = await startWithOps(place);
    app = await createClient(place, '--can', 'tokenize,detokenize,lookup');
  });

  afterAll(async () => {
    await service?.stop();
    place?.remove();
  });

  const send = (
    operation: (typeof OPERATIONS)[number],
    data: unknown,
    headers?: Record<string, string>,
  ) => call(service, operation, data, app.api_key, headers);

  async function apply(document: string): Promise<void> {
    version++;
    await applyPolicy(service, version, document);
    const inForce = async () => (await stateOf(service.opsUrl)).policy.version === version;
    await until(inForce, `version ${version} is in force`);
  }

  test('are not counted without a policy, nor under one without fields', async () => {
    for (const document of [undefined, 'version: 1\nkinds: { card: { shape: digits } }\n']) {
      if (document !== undefined) await apply(document);
      const made = await send('tokenize', RECORD);
      const back = await send('detokenize', made.body.data);
      expect([made, back].map(strings)).toEqual([null, null]);
      expect(back.body.data).toEqual(RECORD);
    }
    const counts = await scrape(service.opsUrl, 'standin_client_strings_total');
    expect(new Set(Object.values(counts))).toEqual(new Set([0]));
  });

  test('pass, and every response says how many did', async () => {
    await apply(`${FIELDS}elsewhere: pass\n`);
    const clear = await send('tokenize', RECORD);
    expect([clear.body.data, strings(clear)]).toEqual([RECORD, 'replaced=0, passed=2']);
    const made = await send('tokenize', MIXED);
    expect(strings(made)).toBe('replaced=1, passed=1');
    expect(made.body.data).toEqual({ ...MIXED, customer: { email: expect.any(String) } });
    expect(made.body.data.customer.email).toMatch(/_tok$/);
    const back = await send('detokenize', [made.body.data, RECORD]);
    expect([back.body.data, strings(back)]).toEqual([[MIXED, RECORD], 'replaced=1, passed=3']);
    const found = await send('lookup', MIXED);
    expect([found.body.data, strings(found)]).toEqual([made.body.data, 'replaced=1, passed=1']);
    const left = { ...made.body.data, cards: [{ number: 'never given_tok' }] };
    const lenient = await send('detokenize', left, { prefer: 'handling=lenient' });
    expect(strings(lenient), 'what is left is not replaced').toBe('replaced=1, passed=1');
    const values = await send('tokenize', { values: ['a', 'b', ''] });
    expect(strings(values)).toBe('replaced=3, passed=0');
    const record = await send('tokenize', { values: ['a', 'b'], memo: 'c' });
    expect(strings(record), 'a record, not a list of values').toBe('replaced=0, passed=3');
    const { text } = await ask(`${service.opsUrl}/openapi.json`);
    const { paths, components } = JSON.parse(text);
    const { pattern } = components.headers['Standin-Strings'].schema;
    for (const answer of [clear, back, values]) expect(strings(answer)).toMatch(RegExp(pattern));
    for (const operation of OPERATIONS) {
      const { headers } = paths[`/api/v1/${operation}`].post.responses[200];
      expect(headers).toHaveProperty('Standin-Strings');
    }
  });

  test('are counted by client, and a request that passed some is known by it', async () => {
    const counts = await scrape(service.opsUrl, 'standin_client_strings_total');
    const label = `client_id="${app.client_id}",outcome=`;
    expect(counts).toMatchObject({ [`${label}"replaced"`]: 7, [`${label}"passed"`]: 11 });
    const { all } = JSON.parse((await ask(`${service.opsUrl}/console/requests`)).text);
    const passed = all.slice(0, 7).map((one: any) => [one.values, one.passed]);
    const wanted = [
      [0, 2],
      [1, 1],
      [1, 3],
      [1, 1],
      [1, 1],
      [3, 0],
      [0, 3],
    ];
    expect(passed.reverse()).toEqual(wanted);
    const sum = { replaced: 7, passed: 11 };
    const ofClient = async () => {
      const { clients } = await stateOf(service.opsUrl);
      return clients!.shown.find((one) => one.client_id === app.client_id)!.strings;
    };
    await until(async () => (await ofClient())?.replaced === 7, 'a sample has the counts');
    expect(await ofClient()).toEqual(sum);
    const page = await ask(`${service.opsUrl}/console/client?id=${app.client_id}`);
    expect(JSON.parse(page.text).strings).toEqual(sum);
  });

  test('are in the log by the name that they nearly have, once and without a value', async () => {
    const near = () =>
      service
        .output()
        .split('\n')
        .filter((line) => line.includes('"found"'));
    const secret = 'secret ann@example.com';
    for (let i = 0; i < 3; i++)
      await send('tokenize', { custmer: { email: secret }, customer: { Email: secret } });
    await send('detokenize', { Customer: { email: secret }, far: secret, [secret]: 'x' });
    const { headers } = await send('tokenize', {});
    const last = headers.get('x-request-id')!;
    await until(() => service.output().includes(last), 'the lines of the log');
    const [first, second, ...more] = near().map((line) => JSON.parse(line));
    const about = { level: 'warn', client_id: app.client_id, policy: 2 };
    expect(first).toMatchObject({ ...about, path: 'customer', found: 'custmer' });
    expect(second).toMatchObject({ ...about, path: 'customer.email', found: 'Email' });
    expect(first.msg).toBe(
      'a request has a field that is nearly one of the policy: is it misspelt?',
    );
    expect([more, service.output().includes(secret)]).toEqual([[], false]);
  });

  test('are refused, named by their path and never by their text', async () => {
    await apply(`${FIELDS}elsewhere: refuse\n`);
    for (const operation of OPERATIONS) {
      for (const [data, path] of [
        [RECORD, 'data.email'],
        [[{ id: 1 }, MIXED], 'data[1].memo'],
        [{ customer: { emails: ['x'] } }, 'data.customer.emails[0]'],
      ] as const) {
        const { status, body } = await send(operation, data);
        const message = `${path}: ${REFUSAL}`;
        expect([status, body]).toEqual([400, { error: 'invalid_type', message }]);
      }
    }
    const { memo: _, ...rest } = MIXED;
    const made = await send('tokenize', rest);
    expect(strings(made)).toBe('replaced=1, passed=0');
    expect((await send('detokenize', made.body.data)).body.data).toEqual(rest);
    expect((await send('tokenize', { values: ['a'] })).status).toBe(200);
  });

  test('are tokenized as text, and detokenize takes nothing else there', async () => {
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

  test('pass under a version from before, which says nothing of them', async () => {
    await apply(FIELDS);
    const clear = await send('tokenize', RECORD);
    expect([clear.body.data, strings(clear)]).toEqual([RECORD, 'replaced=0, passed=2']);
    const headers = { authorization: `Bearer ${app.api_key}` };
    const policy = await (await fetch(`${service.url}/api/v1/policy`, { headers })).json();
    expect(policy).toMatchObject({ version: 5, elsewhere: 'pass' });
    writeFileSync(join(place.folder, 'policy.yaml'), `${FIELDS}# the same, but new\n`);
    const again = await runCli(['policy', 'apply', 'policy.yaml'], place);
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('2:1: say what')]);
  });
});
