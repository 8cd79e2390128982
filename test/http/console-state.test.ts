import { afterEach, expect, test } from 'vitest';
import { Authority, has_openssl } from '../support/certificates.ts';
import { createClient, runJson } from '../support/commands.ts';
import { Licenser } from '../support/license.ts';
import { startWithOps, stateOf } from '../support/ops.ts';
import { call, newPlace, type Place, type Service, until, usualPlace } from '../support/service.ts';

let service: Service & { readonly ops_url: string };
let place: Place;
afterEach(async () => {
  await service.stop();
  place.remove();
});

test('the state says what runs: version, license, certificate, database', async () => {
  place = await newPlace('embedded');
  const licenser = new Licenser(place.folder);
  await licenser.issue(90);
  const issued = has_openssl
    ? new Authority(place.folder, 'authority').issue('DNS:localhost', 30)
    : undefined;
  service = await startWithOps(place, {
    ...licenser.env,
    ...(issued && { TLS_CERT_FILE: issued.cert, TLS_KEY_FILE: issued.key }),
    INTERFACE_VERSION: '1.0.4',
  });
  const state = await stateOf(service.ops_url);
  expect(state).toMatchObject({
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    ...{ interface_version: '1.0.4', are_limits_shared: null },
    database: { kind: 'embedded', is_up: true },
  });
  expect(state.license!.days_left).toBeGreaterThan(89);
  expect(state.license!.days_left).toBeLessThanOrEqual(90);
  if (issued === undefined) expect(state.certificate).toBeNull();
  else expect(Date.parse(state.certificate!.expires_at)).toBeGreaterThan(Date.now());
  const [started_ms, at_ms] = [Date.parse(state.started_at), Date.parse(state.at)];
  expect(at_ms).toBeGreaterThan(started_ms);
  expect(Math.abs(at_ms - Date.now())).toBeLessThan(60_000);
});

test('the state has the vault as it grows, and its keys as they are rotated and resealed', async () => {
  place = await usualPlace();
  service = await startWithOps(place);
  const state = () => stateOf(service.ops_url);
  const { license, certificate, vault } = await state();
  expect([license, certificate, vault!.records]).toEqual([null, null, 0]);
  await call(service, 'tokenize', { a: 'one', b: 'two', c: 'three' });
  await until(async () => (await state()).vault!.records === 3, 'three records');
  expect((await state()).vault!.growth.at(-1)!.records).toBeLessThanOrEqual(3);
  await until(async () => (await state()).keys!.versions[0]!.records === 3, 'three of version 1');
  await runJson(place, 'keyring', 'rotate');
  await until(async () => (await state()).keys!.resealed === 0, 'a new version');
  expect((await state()).keys!.versions).toMatchObject([
    { version: 1, is_newest: false, records: 3, created_at: expect.stringMatching(/Z$/) },
    { version: 2, is_newest: true, records: 0 },
  ]);
  await runJson(place, 'keyring', 'reseal');
  await until(async () => (await state()).keys!.resealed === 1, 'all resealed');
  expect((await state()).keys!.age_s).toBeLessThan(60);
});

test('the state has all clients, with their limits or those of the deployment', async () => {
  place = await usualPlace();
  service = await startWithOps(place, { RATE_LIMIT: '50' });
  const own = await createClient(place, '--rate-limit', '7', '--can', 'tokenize');
  const free = await createClient(place, '--rate-limit', '0', '--token-mode', 'random');
  await runJson(place, 'client', 'disable', free.client_id);
  const { shown, others } = (await stateOf(service.ops_url)).clients!;
  const byId = (client_id: string) => shown.find((one) => one.client_id === client_id);
  expect([shown.length, others]).toEqual([3, 0]);
  expect(byId(service.client_id)).toMatchObject({ rate_limit: 50, is_disabled: false });
  expect(byId(own.client_id)).toEqual({
    ...{ client_id: own.client_id, name: 'test', is_disabled: false, live_api_keys: 1 },
    ...{ can_tokenize: true, can_detokenize: false, token_mode: 'deterministic' },
    ...{ last_used_at: null, requests_per_s: 0, rate_limit: 7 },
  });
  expect(byId(free.client_id)).toMatchObject({
    ...{ rate_limit: null, is_disabled: true, token_mode: 'random' },
  });
});
