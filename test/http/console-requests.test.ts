import { describe, expect, test } from 'vitest';
import type { ClientDetail, RecentRequest, RecentRequestsShown } from '#console';
import { ask, servedOps } from '../support/ops.ts';
import { call, runJson, until } from '../support/service.ts';

const at = servedOps();

const recent = async (): Promise<RecentRequestsShown> =>
  JSON.parse((await ask(`${at.service.opsUrl}/console/requests`)).text);
const client = async (id: string): Promise<ClientDetail> =>
  JSON.parse((await ask(`${at.service.opsUrl}/console/client?id=${id}`)).text);
const clientNamed = (name: string, ...options: string[]) =>
  runJson(at.service.place, 'client', 'create', '--name', name, ...options);

describe('recent requests', () => {
  test('have the facts of the log, and neither values nor tokens nor names of fields', async () => {
    const { client_id: clientId, api_key: apiKey } = await clientNamed('billing');
    const secrets = { secret_name: 'Secret Value', other: 'secret@example.com' };
    const made = await call(at.service, 'tokenize', secrets, apiKey);
    await call(at.service, 'detokenize', { secret_name: 'nobody_tok' }, apiKey);
    await call(at.service, 'tokenize', { 'secret: name': { secret_name: 7 } }, apiKey);
    await call(at.service, 'tokenize', secrets, `stk_${'a'.repeat(34)}`);
    await fetch(`${at.service.url}/health`);
    const { all, refused } = await recent();
    expect(all.slice(0, 4).map(({ status, why }) => [status, why])).toEqual([
      [401, 'unauthorized: not an API key, or mistyped: an API key has 38 characters'],
      [
        400,
        'invalid_type: must be a string, not a number; send it in quotes, JSON numbers lose digits',
      ],
      [400, 'invalid_type: is not a known token'],
      [200, ''],
    ]);
    expect(refused).toEqual(all.slice(0, 3));
    expect(all[0]).toMatchObject({ client_id: null, values: 0 });
    const { atMs, duration_ms: durationMs, ...facts } = all[3]!;
    expect(facts).toEqual({
      ...{ request_id: made.body.request_id, client_id: clientId, status: 200, values: 2, why: '' },
      ...{ method: 'POST', route: '/api/v1/tokenize', passed: null },
    });
    expect(Math.abs(Date.now() - atMs)).toBeLessThan(60_000);
    expect(durationMs).toBeGreaterThan(0);
    const text = JSON.stringify(await recent());
    for (const secret of ['ecret', 'nobody', apiKey, ...Object.values<string>(made.body.data)])
      expect(text).not.toContain(secret);
  });

  test('keep refusals apart, so that successes do not push them out, and have a bound', async () => {
    await call(at.service, 'detokenize', { a: 'long_ago_tok' });
    const [before] = (await recent()).refused;
    for (let i = 0; i < 250; i++) await call(at.service, 'tokenize', { a: 'Ann' });
    const { all, refused } = await recent();
    expect([all.length, refused[0]]).toEqual([200, before]);
    expect(all.map(({ status }) => status)).not.toContain(400);
    const times = all.map(({ atMs }: RecentRequest) => atMs);
    expect(times).toEqual(times.toSorted((a, b) => b - a));
  });
});

describe('the page of a client', () => {
  test('has its limits, its API keys without the keys, and its requests', async () => {
    const made = await clientNamed('crm', '--rate-limit', '50', '--can', 'tokenize');
    const { client_id: id, api_key: apiKey } = made;
    const expiring = await runJson(
      at.service.place,
      'api-key',
      'issue',
      '--client',
      id,
      '--expires',
      '90d',
    );
    await runJson(at.service.place, 'api-key', 'revoke', expiring.api_key_id);
    expect(await client(id)).toMatchObject({
      ...{ client_id: id, name: 'crm', can_tokenize: true, can_detokenize: false },
      ...{ token_mode: 'deterministic', disabled_at: null, time_to_live_s: null },
      limits: [{ name: 'rate_limit', perS: 50, isOwn: true }],
      api_keys: [
        { revoked_at: null, expires_at: null, last_used_at: null },
        { api_key_id: expiring.api_key_id, revoked_at: expect.stringMatching(/Z$/) },
      ],
      rates: [],
    });
    const hasRate = async () => {
      await call(at.service, 'tokenize', { a: 'Ann' }, apiKey);
      return (await client(id)).rates.some(({ requestsPerS }) => requestsPerS > 0);
    };
    await until(hasRate, 'a rate');
    const text = JSON.stringify(await client(id));
    expect(text).not.toContain('stk_');
  });

  test.each(['', '?id=', '?id=standin_000000000000000000000000', '?id=%00'])(
    'is refused in words for an id that no client has: %j',
    async (query) => {
      const { status, text } = await ask(`${at.service.opsUrl}/console/client${query}`);
      expect([status, JSON.parse(text).message]).toEqual([404, 'There is no such client.']);
    },
  );
});
