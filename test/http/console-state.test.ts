import { afterEach, expect, test } from 'vitest';
import { Licenser } from '../support/keys.ts';
import { startWithOps, stateOf } from '../support/ops.ts';
import {
  call,
  createClient,
  newPlace,
  type Place,
  runJson,
  type Service,
  until,
  usualPlace,
} from '../support/service.ts';
import { Authority, hasOpenssl } from '../support/tls.ts';

let service: Service & { readonly opsUrl: string };
let place: Place;
afterEach(async () => {
  await service.stop();
  place.remove();
});

test('the state says what runs: version, license, certificate, database', async () => {
  place = await newPlace('embedded');
  const licenser = new Licenser(place.folder);
  await licenser.issue(90);
  const issued = hasOpenssl
    ? new Authority(place.folder, 'authority').issue('DNS:localhost', 30)
    : undefined;
  service = await startWithOps(place, {
    ...licenser.env,
    ...(issued && { TLS_CERT_FILE: issued.cert, TLS_KEY_FILE: issued.key }),
    INTERFACE_VERSION: '1.0.4',
  });
  const state = await stateOf(service.opsUrl);
  expect(state).toMatchObject({
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    ...{ interfaceVersion: '1.0.4', areLimitsShared: null },
    database: { kind: 'embedded', isUp: true },
  });
  expect(state.license!.daysLeft).toBeGreaterThan(89);
  expect(state.license!.daysLeft).toBeLessThanOrEqual(90);
  if (issued === undefined) expect(state.certificate).toBeNull();
  else expect(Date.parse(state.certificate!.expires_at)).toBeGreaterThan(Date.now());
  const [startedMs, atMs] = [Date.parse(state.startedAt), Date.parse(state.at)];
  expect(atMs).toBeGreaterThan(startedMs);
  expect(Math.abs(atMs - Date.now())).toBeLessThan(60_000);
});

test('the state has the vault as it grows, and its keys as they are rotated and resealed', async () => {
  place = await usualPlace();
  service = await startWithOps(place);
  const state = () => stateOf(service.opsUrl);
  const { license, certificate, vault } = await state();
  expect([license, certificate, vault!.records]).toEqual([null, null, 0]);
  await call(service, 'tokenize', { a: 'one', b: 'two', c: 'three' });
  await until(async () => (await state()).vault!.records === 3, 'three records');
  expect((await state()).vault!.growth.at(-1)!.records).toBe(3);
  await until(async () => (await state()).keys!.versions[0]!.records === 3, 'three of version 1');
  await runJson(place, 'keyring', 'rotate');
  await until(async () => (await state()).keys!.resealed === 0, 'a new version');
  expect((await state()).keys!.versions).toMatchObject([
    { version: 1, isNewest: false, records: 3, created_at: expect.stringMatching(/Z$/) },
    { version: 2, isNewest: true, records: 0 },
  ]);
  await runJson(place, 'keyring', 'reseal');
  await until(async () => (await state()).keys!.resealed === 1, 'all resealed');
  expect((await state()).keys!.age_s).toBeLessThan(60);
});

test('the state has all clients, with their limits or those of the deployment', async () => {
  place = await usualPlace();
  service = await startWithOps(place, { RATE_LIMIT: '50', DETOKENIZE_LIMIT: '500' });
  const own = await createClient(place, '--name', 'test', '--rate-limit', '7', '--can', 'tokenize');
  const free = await createClient(place, '--rate-limit', '0', '--token-mode', 'random');
  await runJson(place, 'client', 'disable', free.client_id);
  const ended = await runJson(place, 'api-key', 'issue', '--client', own.client_id);
  await runJson(place, 'api-key', 'revoke', ended.api_key_id);
  const { shown, others } = (await stateOf(service.opsUrl)).clients!;
  const byId = (clientId: string) => shown.find((one) => one.client_id === clientId);
  expect([shown.length, others]).toEqual([3, 0]);
  expect(byId(service.client_id)).toMatchObject({ limitPerS: 550, isDisabled: false });
  expect(byId(own.client_id)).toEqual({
    ...{ client_id: own.client_id, name: 'test', isDisabled: false, liveApiKeys: 1 },
    ...{ can_tokenize: true, can_detokenize: false, token_mode: 'deterministic' },
    ...{ last_used_at: null, requestsPerS: 0, limitPerS: 7 },
    ...{ can_lookup: false, space: '', sees: null, strings: null },
  });
  expect(byId(free.client_id)).toMatchObject({
    ...{ limitPerS: null, isDisabled: true, token_mode: 'random' },
  });
});
