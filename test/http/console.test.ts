import { describe, expect, onTestFinished, test } from 'vitest';
import type { ClientDetail, RecentRequestsShown } from '#console';
import { Licenser } from '../support/keys.ts';
import { refusalIn, servedOps, stateOf, watch } from '../support/ops.ts';
import { ownPlace, ownService } from '../support/own.ts';
import { call, createClient, runJson, until } from '../support/service.ts';
import { Authority, hasOpenssl } from '../support/tls.ts';

const at = servedOps({ RATE_LIMIT: '5000', DETOKENIZE_LIMIT: '500', DRAIN_DELAY_MS: '0' });

const run = (...args: string[]) => runJson(at.service.place, ...args);
const tokenize = (data: object, apiKey?: string) => call(at.service, 'tokenize', data, apiKey);
const state = () => stateOf(at.service.opsUrl);
const recent = async (): Promise<RecentRequestsShown> =>
  JSON.parse((await at.ask('/console/requests')).text);
const client = async (id: string): Promise<ClientDetail> =>
  JSON.parse((await at.ask(`/console/client?id=${id}`)).text);

async function open() {
  const watcher = await watch(at.service.opsUrl);
  onTestFinished(() => watcher.close());
  return watcher;
}

describe('the events of a service', () => {
  test('begin with the history and the state, and bring samples and states of what is sent', async () => {
    const made = await createClient(at.service.place, '--name', 'test');
    const watcher = await open();
    expect(watcher.status).toBe(200);
    await watcher.next('sample');
    expect(watcher.events.map(({ name }) => name).slice(0, 2)).toEqual(['history', 'state']);
    const isUsed = (one: any) => one.client_id === made.client_id && one.requestsPerS > 0;
    const used = watcher.next('state', ({ clients }) => clients.shown.some(isUsed));
    const data = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`f${i}`, `value ${i}`]));
    for (let i = 0; i < 30; i++) await tokenize(data, made.api_key);
    /** How many in all, from rates and the times between the samples. */
    const values = () =>
      watcher.samples().map(({ atMs, tokenize }, i, samples) => {
        const sinceMs = i === 0 ? 0 : atMs - samples[i - 1]!.atMs;
        return (tokenize.values * sinceMs) / 1000;
      });
    const sum = () => Math.round(values().reduce((all, one) => all + one));
    await until(() => sum() >= 300, 'the last request');
    expect(sum()).toBe(300);
    expect(watcher.samples().flatMap(({ batch }) => batch.insert ?? [])).toEqual([10]);
    expect((await used).clients.shown.find(isUsed)).toMatchObject({
      ...{ name: 'test', isDisabled: false, liveApiKeys: 1, last_used_at: expect.any(String) },
    });
  });

  test('are for 20 readers, and for another when one has left', async () => {
    const readers = await Promise.all(Array.from({ length: 20 }, () => open()));
    const refused = await at.ask('/console/events');
    expect(refusalIn(refused)).toEqual([503, 'overloaded']);
    expect(refused.headers['retry-after']).toBe('1');
    readers[0]!.close();
    await until(async () => (await open()).status === 200, 'a place');
  });
});

describe('the state', () => {
  test('says what runs: version, license, certificate, database', async () => {
    const place = await ownPlace('embedded');
    const licenser = new Licenser(place.folder);
    await licenser.issue(90);
    const { cert, key } = hasOpenssl
      ? new Authority(place.folder, 'authority').issue('DNS:localhost', 30)
      : { cert: '', key: '' };
    const tls = { TLS_CERT_FILE: cert, TLS_KEY_FILE: key };
    const service = await ownService(place, {
      ...licenser.env,
      ...tls,
      INTERFACE_VERSION: '1.0.4',
    });
    const { license, certificate, ...shown } = await stateOf(service.opsUrl);
    expect(shown).toMatchObject({
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      ...{ interfaceVersion: '1.0.4', areLimitsShared: null },
      database: { kind: 'embedded', isUp: true },
      keys: { versions: [{ version: 1, isNewest: true, records: 0 }], resealed: 1 },
      clients: { shown: [{ last_used_at: null }], others: 0 },
    });
    expect(Math.ceil(license!.daysLeft)).toBe(90);
    const expiresMs = Date.parse(certificate?.expires_at ?? '');
    expect(expiresMs > Date.now()).toBe(hasOpenssl);
    expect(Math.abs(Date.parse(shown.at) - Date.now())).toBeLessThan(60_000);
  });

  test('has the vault as it grows, and its keys as they are rotated and resealed', async () => {
    const { license, certificate } = await state();
    expect([license, certificate]).toEqual([null, null]);
    await tokenize({ a: 'one', b: 'two', c: 'three' });
    // The tests before have stored some, which the state may not have counted yet.
    const { records } = await run('verify');
    await until(async () => (await state()).vault!.records === records, 'three records');
    const isCounted = async () => (await state()).keys!.versions[0]!.records === records;
    await until(isCounted, 'three of version 1');
    await run('keyring', 'rotate');
    await until(async () => (await state()).keys!.resealed === 0, 'a new version');
    expect((await state()).keys!.versions).toMatchObject([
      { version: 1, isNewest: false, records, created_at: expect.stringMatching(/Z$/) },
      { version: 2, isNewest: true, records: 0 },
    ]);
    await run('keyring', 'reseal');
    await until(async () => (await state()).keys!.resealed === 1, 'all resealed');
    expect((await state()).keys!.age_s).toBeLessThan(60);
  });

  test('has all clients, with their limits or those of the deployment', async () => {
    const { place, client_id: first } = at.service;
    const limited = ['--name', 'limited', '--rate-limit', '7', '--can', 'tokenize'];
    const own = await createClient(place, ...limited);
    const free = await createClient(place, '--rate-limit', '0', '--token-mode', 'random');
    await run('client', 'disable', free.client_id);
    const ended = await run('api-key', 'issue', '--client', own.client_id);
    await run('api-key', 'revoke', ended.api_key_id);
    const { length: count } = await run('client', 'list');
    const clients = async () => (await state()).clients!;
    const byId = async (id: string) => (await clients()).shown.find((one) => one.client_id === id);
    // The state of a moment ago may be without the last of them, and the last change.
    await until(async () => (await byId(free.client_id))?.isDisabled === true, 'the last change');
    await until(async () => (await byId(own.client_id))?.liveApiKeys === 1, 'the revocation');
    expect(await clients()).toMatchObject({ shown: { length: count }, others: 0 });
    expect(await byId(first)).toMatchObject({ limitPerS: 5500, isDisabled: false });
    expect(await byId(own.client_id)).toEqual({
      ...{ client_id: own.client_id, name: 'limited', isDisabled: false, liveApiKeys: 1 },
      ...{ can_tokenize: true, can_detokenize: false, token_mode: 'deterministic' },
      ...{ last_used_at: null, requestsPerS: 0, limitPerS: 7 },
      ...{ can_lookup: false, space: '', strings: null, time_to_live_s: null },
      ...{ rate_limit: 7, detokenize_limit: null, lookup_limit: null, unknown_token_limit: null },
    });
    expect(await byId(free.client_id)).toMatchObject({ limitPerS: null, token_mode: 'random' });
  });
});

describe('recent requests', () => {
  test('have the facts of the log, and neither values nor tokens nor names of fields', async () => {
    const { client_id: clientId, api_key: apiKey } = await createClient(at.service.place);
    const secrets = { secret_name: 'Secret Value', other: 'secret@example.com' };
    const made = await tokenize(secrets, apiKey);
    await call(at.service, 'detokenize', { secret_name: 'nobody_tok' }, apiKey);
    await tokenize({ 'secret: name': { secret_name: 7 } }, apiKey);
    await tokenize(secrets, `stk_${'a'.repeat(34)}`);
    await fetch(`${at.service.url}/health`);
    const { all, refused } = await recent();
    expect(all.slice(0, 4).map(({ status, why }) => `${status} ${why}`)).toEqual([
      '401 unauthorized: not an API key, or mistyped: an API key has 38 characters',
      '400 invalid_type: must be a string, not a number; send it in quotes, JSON numbers lose digits',
      '400 invalid_type: is not a known token',
      '200 ',
    ]);
    expect(refused.slice(0, 3)).toEqual(all.slice(0, 3));
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
    for (let i = 0; i < 250; i++) await tokenize({ a: 'Ann' });
    const { all, refused } = await recent();
    expect([all.length, refused[0]]).toEqual([200, before]);
    expect(all.map(({ status }) => status)).not.toContain(400);
  });
});

describe('the page of a client', () => {
  test('has its limits, its API keys without the keys, and its requests', async () => {
    const options = ['--name', 'crm', '--rate-limit', '50', '--can', 'tokenize'];
    const { client_id: id, api_key: apiKey } = await createClient(at.service.place, ...options);
    const expiring = await run('api-key', 'issue', '--client', id, '--expires', '90d');
    await run('api-key', 'revoke', expiring.api_key_id);
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
    await until(async () => {
      await tokenize({ a: 'Ann' }, apiKey);
      return (await client(id)).rates.some(({ requestsPerS }) => requestsPerS > 0);
    }, 'a rate');
    expect(JSON.stringify(await client(id))).not.toContain('stk_');
  });

  test.each(['', '?id=', '?id=standin_000000000000000000000000', '?id=%00'])(
    'is refused in words for an id that no client has: %j',
    async (query) => {
      const { status, text } = await at.ask(`/console/client${query}`);
      expect([status, JSON.parse(text).message]).toEqual([404, 'There is no such client.']);
    },
  );
});

test('open streams do not keep the service from ending, and are ended by it', async () => {
  const watcher = await open();
  await watcher.next('sample');
  at.service.kill('SIGTERM');
  expect(await at.service.exit).toBe(0);
  await until(() => watcher.hasEnded(), 'the end of the stream');
});
