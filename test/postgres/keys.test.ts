import { copyFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, onTestFinished, test } from 'vitest';
import { kekOf } from '../../src/crypto/kek.ts';
import { Keyring } from '../../src/crypto/keyring.ts';
import { newKeyBytes } from '../../src/crypto/primitives.ts';
import { Unavailable } from '../../src/errors.ts';
import { kekSourceOf } from '../../src/kek/kek-source.ts';
import { FIRST_RECORD, readPage } from '../../src/store/record-walk.ts';
import { retireKey, rotateKey } from '../../src/vault/key-lifecycle.ts';
import { KeyringFollower } from '../../src/vault/keyring-follower.ts';
import { openKeys, wrap } from '../../src/vault/open-keys.ts';
import { MixedLoad } from '../support/journal.ts';
import { freePort, PostgresCluster, query } from '../support/postgres.ts';
import {
  call,
  kinds,
  newPlace,
  type Place,
  runCli,
  type Service,
  startService,
  until,
} from '../support/service.ts';
import {
  detokenizeAll,
  metric,
  openedVault,
  sealedWith,
  soon,
  sql,
  tokenizeAll,
} from '../support/vault.ts';

const kind = kinds().at(-1)!;
const IN_FORCE_MS = 5_000;
const services: Service[] = [];
const places: Place[] = [];
afterEach(async () => {
  for (const service of services.splice(0)) await service.stop();
  for (const place of places.splice(0)) place.remove();
});

async function newVault(): Promise<Place> {
  const place = await newPlace(kind);
  places.push(place);
  return place;
}

async function start(place: Place, env: Record<string, string> = {}): Promise<Service> {
  const service = await startService(place, { OPS_PORT: String(await freePort()), ...env });
  services.push(service);
  return service;
}

/** Polls until every node seals with the version. */
async function inForce(nodes: Service[], version: number, patienceMs = IN_FORCE_MS) {
  for (const node of nodes) {
    const isThere = async () => (await metric(node, 'standin_key_version')) === version;
    await until(isThere, `version ${version} on ${node.url}`, patienceMs);
  }
}

async function versions(place: Place): Promise<Record<number, number>> {
  const rows = await sql(
    place,
    'select key_version, count(*)::int as n from standin.records group by key_version',
  );
  return Object.fromEntries(rows.map(({ key_version: keyVersion, n }) => [keyVersion, n]));
}

async function run(place: Place, ...args: string[]): Promise<any> {
  const { code, stdout, stderr } = await runCli([...args, '--json'], place);
  expect({ code, stderr }).toMatchObject({ code: 0 });
  return JSON.parse(stdout);
}

/** As if the keys had been there for a while. */
async function age(place: Place): Promise<void> {
  await sql(place, "update standin.keyring set created_at = created_at - interval '2 minutes'");
}

describe.skipIf(kind !== 'server')('two nodes', () => {
  test('C12: rotate, reseal and retire under load: no failed request, new records have the new version in 5 s, old tokens all restore', async () => {
    const place = await newVault();
    const first = await start(place);
    const nodes = [first, await start(place)];
    const old = Array.from({ length: 2_000 }, (_, i) => `old ${i}`);
    const tokens = await tokenizeAll(first, old);
    const load = new MixedLoad(nodes, first.api_key);
    await load.progress(100);
    expect(await run(place, 'keyring', 'rotate')).toEqual({ version: 2 });
    await inForce(nodes, 2);
    const before = await versions(place);
    const marks = load.kept.length;
    await load.progress(300);
    // All that came since is of the new version: of the old one there is not one more.
    const after = await versions(place);
    expect(after[1]).toBe(before[1]);
    expect(after[2]! - (before[2] ?? 0)).toBeGreaterThanOrEqual(load.kept.length - marks - 4);
    expect(await run(place, 'keyring', 'reseal')).toMatchObject({
      key_version: 2,
      resealed: before[1],
      bad: 0,
      is_complete: true,
    });
    await age(place);
    expect(await run(place, 'keyring', 'retire', '1')).toEqual({ version: 1 });
    await load.progress(200);
    await load.stop();
    expect(load.failures).toEqual([]);
    expect(Object.keys(await versions(place))).toEqual(['2']);
    for (const node of nodes) {
      expect(await detokenizeAll(node, tokens, first.api_key)).toEqual(old);
      const kept = load.kept.map(({ token }) => token);
      expect(await detokenizeAll(node, kept, first.api_key)).toEqual(
        load.kept.map(({ value }) => value),
      );
    }
    expect(await run(place, 'verify')).toMatchObject({ bad: 0, next: null });
  });

  test('C17: after a rotation a value has the same token, and repeating it adds no record', async () => {
    const place = await newVault();
    const node = await start(place);
    const values = Array.from({ length: 500 }, (_, i) => `stays ${i}`);
    const tokens = await tokenizeAll(node, values);
    await run(place, 'keyring', 'rotate');
    await inForce([node], 2);
    const other = await start(place);
    const again = await call(other, 'tokenize', { values }, node.api_key);
    expect(again.body.data.values).toEqual(tokens);
    expect(await versions(place)).toEqual({ 1: 500 });
  });
});

test('a record of a version that was added a moment ago is restored, not refused', async () => {
  const place = await newVault();
  const service = await start(place);
  const { keys, source, records, keyring } = openedVault(place);
  // Of so many rotations some fall between two looks of the service.
  for (let round = 1; round <= 6; round++) {
    await rotateKey(keys, source);
    const token = `abc${round}_tok`;
    const record = sealedWith(await keyring(), `value ${round}`, token);
    expect(record.key_version).toBe(round + 1);
    await records.insert([record]);
    const { status, body } = await call(service, 'detokenize', { token });
    expect([status, body.data]).toEqual([200, { token: `value ${round}` }]);
  }
});

test('rotations at once each add a version, and none twice', async () => {
  const place = await newVault();
  const service = await start(place);
  const { keys, source } = openedVault(place);
  const made = await Promise.all(Array.from({ length: 4 }, () => rotateKey(keys, source)));
  expect(made.map(({ version }) => version).toSorted()).toEqual([2, 3, 4, 5]);
  await inForce([service], 5, 30_000);
});

test('a node that cannot read the KEK any more goes on with its keys, says so once, and takes the new one when it can', async () => {
  const place = await newVault();
  const service = await start(place);
  const kekFile = place.env.KEK_FILE ?? join(place.env.DATA_DIR!, 'kek');
  const { keys } = openedVault(place);
  const { token } = (await call(service, 'tokenize', { token: 'before' })).body.data;
  copyFileSync(kekFile, `${kekFile}.copy`);
  renameSync(kekFile, `${kekFile}.away`);
  const copy = kekSourceOf({ kek: { KEK_FILE: `${kekFile}.copy` }, dataDir: '', databaseUrl: '' });
  await rotateKey(keys, copy);
  const warnings = () => service.output().split('the keyring cannot be renewed').length - 1;
  await until(() => warnings() === 1, 'a warning');
  expect(service.output()).toContain('The key-encryption key cannot be read from');
  const ageS = await metric(service, 'standin_keyring_age_seconds');
  await until(
    async () => (await metric(service, 'standin_keyring_age_seconds')) > ageS,
    'an age that grows',
  );
  expect((await call(service, 'tokenize', { a: 'meanwhile' })).status).toBe(200);
  expect((await call(service, 'detokenize', { token })).body.data).toEqual({ token: 'before' });
  expect(await metric(service, 'standin_key_version')).toBe(1);
  renameSync(`${kekFile}.away`, kekFile);
  await inForce([service], 2, 30_000);
  await until(() => service.output().includes('the keyring can be read again'), 'its line');
  expect(warnings()).toBe(1);
  await call(service, 'tokenize', { a: 'after' });
  expect(await versions(place)).toEqual({ 1: 2, 2: 1 });
});

test('C15: records whose key version is gone: an error and never another value, and doctor counts them', async () => {
  const place = await newVault();
  const service = await start(place);
  const values = ['Ann Lee', 'Bob Ray', 'Cy Vance'];
  const tokens = await tokenizeAll(service, values);
  // The node has opened them.
  expect(await tokenizeAll(service, values)).toEqual(tokens);
  await run(place, 'keyring', 'rotate');
  await inForce([service], 2, 30_000);
  const [other] = await tokenizeAll(service, ['Dee Wong']);
  await sql(place, "delete from standin.keyring where purpose = 'dek' and version = 1");
  const failed = async () => (await call(service, 'detokenize', { tokens })).status === 500;
  await until(failed, 'version 1 is dropped');
  const { body } = await call(service, 'detokenize', { tokens });
  expect(body).toEqual({ error: 'internal_error', message: 'key version not in the keyring' });
  expect((await call(service, 'detokenize', { other })).body.data).toEqual({ other: 'Dee Wong' });
  const findings: any[] = await run(place, 'doctor');
  expect(findings.find(({ check }) => check === 'records')).toMatchObject({
    status: 'warning',
    detail: expect.stringContaining('3 with version 1'),
  });
  const verified = await runCli(['verify', '--json'], place);
  expect(verified.code).toBe(1);
  expect(JSON.parse(verified.stdout)).toMatchObject({ records: 4, bad: 3 });
  expect(verified.stderr.match(/: key version not in the keyring/g)).toHaveLength(3);
  // Who tokenizes such a value gets a token that opens.
  expect(await tokenizeAll(service, values)).toEqual(tokens);
  expect(await detokenizeAll(service, tokens)).toEqual(values);
});

test('the key of another vault in the row of a version is never taken: nothing is sealed until the own key is back', async () => {
  const place = await newVault();
  await run(place, 'migrate');
  const service = await start(place);
  const { keys, source } = openedVault(place);
  const opened = await openKeys(keys, source, 'tok', soon());
  const follower = new KeyringFollower(keys, source, opened);
  await follower.refresh();
  const { keys: own } = follower.latest;
  const wrapping = (bytes: Buffer) =>
    keys.locked(soon(), async (locked) =>
      locked.update(wrap(kekOf(await source.read()), 'dek', 1, bytes)),
    );
  await wrapping(newKeyBytes());
  await follower.refresh();
  expect(follower.latest).toMatchObject({ keys: own, asOfMs: -Infinity, failure: 'key_missing' });
  let n = 0;
  const status = async () => (await call(service, 'tokenize', { a: `new ${n++}` })).status;
  await until(async () => (await status()) === 500, 'a refusal');
  await wrapping(own.find(({ purpose }) => purpose === 'dek')!.bytes);
  await until(async () => (await status()) === 200, 'the own key');
});

describe.skipIf(kind !== 'server')('with a standby that is away', () => {
  /** @param standby '': commits wait for none */
  async function newAbsence() {
    const cluster = await PostgresCluster.start();
    onTestFinished(() => cluster.stop());
    const place = await newPlace('server', cluster.url('postgres'));
    places.push(place);
    await run(place, 'migrate');
    const vault = openedVault(place);
    const opened = await openKeys(vault.keys, vault.source, 'tok', soon());
    const waitFor = async (standby: string) => {
      const admin = cluster.directUrl('postgres');
      await query(admin, `alter system set synchronous_standby_names = '${standby}'`);
      await query(admin, 'select pg_reload_conf()');
    };
    return { ...vault, place, opened, waitFor };
  }

  test('a key that a failover would lose seals nothing', async () => {
    const { place, keys, source, opened, waitFor } = await newAbsence();
    const follower = new KeyringFollower(keys, source, opened);
    await follower.refresh();
    await waitFor('absent');
    // As a rotation whose wait for the standby was cancelled: visible, and on this server only.
    const { kek_id: kekId, wrapped } = wrap(kekOf(await source.read()), 'dek', 2, newKeyBytes());
    const insert = `insert into standin.keyring (purpose, version, kek_id, wrapped) values ('dek', 2, '${kekId}', '\\x${wrapped.toString('hex')}')`;
    await sql(place, `begin; set local synchronous_commit = local; ${insert}; commit`);
    const isFailed = async () => {
      await follower.refresh();
      return follower.latest.failure !== undefined;
    };
    await until(isFailed, 'a failed read');
    // It may open records.
    expect(follower.latest).toMatchObject({ isDurable: false, failure: 'database_unavailable' });
    await waitFor('');
    const hasKey = async () => {
      await follower.refresh();
      return follower.latest.isDurable && follower.primaryVersion === 2;
    };
    await until(hasKey, 'the key');
  });

  test('a reseal does not say that nothing is left; verify goes on', async () => {
    const { pool, opened, records, waitFor } = await newAbsence();
    await records.insert([sealedWith(new Keyring(opened), 'Ann Lee', 'a_tok')]);
    await waitFor('absent');
    const window = (without?: number) =>
      readPage(pool, FIRST_RECORD, without, performance.now() + 1_000);
    const isRefused = () =>
      window(1).then(
        () => false,
        (error) => error instanceof Unavailable,
      );
    await until(isRefused, 'a refusal');
    expect((await window()).records).toHaveLength(1);
  });
});

test('the row of the primary is lost: nothing more is sealed with it, the process still opens its records, and goes on when the row is back', async () => {
  const place = await newVault();
  const service = await start(place);
  await run(place, 'keyring', 'rotate');
  await inForce([service], 2, 30_000);
  const tokens = await tokenizeAll(service, ['Ann Lee', 'Bob Ray']);
  const lost = "from standin.keyring where purpose = 'dek' and version = 2";
  await sql(place, `create table standin.kept as select * ${lost}`);
  await sql(place, `delete ${lost}`);
  const tokenized = async (value: string) => (await call(service, 'tokenize', { value })).status;
  let n = 0;
  await until(async () => (await tokenized(`new ${n++}`)) === 500, 'a refusal');
  const said = 'Version 2 of the dek key, the primary, is gone';
  await until(() => service.output().includes(said), 'its line');
  // It has no live key version to seal with.
  const health = async () => (await fetch(`${service.url}/health`)).status;
  expect(await health()).toBe(503);
  expect(await detokenizeAll(service, tokens)).toEqual(['Ann Lee', 'Bob Ray']);
  const before = await versions(place);
  expect(await tokenized('one more')).toBe(500);
  expect(await versions(place)).toEqual(before);
  await sql(place, 'insert into standin.keyring select * from standin.kept');
  expect(await tokenized('one more')).toBe(200);
  await until(async () => (await health()) === 200, '/health to say 200');
  expect(await run(place, 'verify')).toMatchObject({ bad: 0 });
});

test('retire refuses what is needed, the primary, and what nodes may still seal with', async () => {
  const place = await newVault();
  const service = await start(place);
  const tokens = await tokenizeAll(service, ['Ann Lee', 'Bob Ray']);
  const { keys, source } = openedVault(place);
  await expect(retireKey(keys, 7)).rejects.toThrow('There is no dek key of version 7');
  await expect(retireKey(keys, 1)).rejects.toThrow('Version 1 is the primary');
  await rotateKey(keys, source);
  await expect(retireKey(keys, 1, 0)).rejects.toThrow('2 records need key version 1');
  await run(place, 'keyring', 'reseal');
  await expect(retireKey(keys, 1)).rejects.toThrow(/nodes may still seal with version 1/);
  expect((await sql(place, 'select 1 from standin.keyring')).length).toBe(5);
  await retireKey(keys, 1, 0);
  await expect(retireKey(keys, 1, 0)).rejects.toThrow('There is no dek key of version 1');
  await inForce([service], 2, 30_000);
  expect(await detokenizeAll(service, tokens)).toEqual(['Ann Lee', 'Bob Ray']);
});

test('a forgotten record is passed by: it keeps no key version alive, and is neither opened nor resealed', async () => {
  const place = await newVault();
  const service = await start(place);
  const [token] = await tokenizeAll(service, ['Ann Lee', 'Bob Ray']);
  const { keys, source, keyring } = openedVault(place);
  const fingerprint = (await keyring()).tokenFingerprint(token as never);
  const hex = Buffer.from(fingerprint, 'latin1').toString('hex');
  await sql(place, "update standin.records set sealed = '' where token_fingerprint = $1", [hex]);
  await rotateKey(keys, source);
  expect(await run(place, 'keyring', 'reseal')).toMatchObject({ resealed: 1, bad: 0 });
  await retireKey(keys, 1, 0);
  expect(await run(place, 'verify')).toMatchObject({ records: 1, bad: 0 });
  expect(await versions(place)).toEqual({ 1: 1, 2: 1 });
});

test('C14: rewrap touches the key rows only; nodes that run go on, and only the new KEK opens the vault', async () => {
  const place = await newVault();
  const service = await start(place);
  const values = Array.from({ length: 1_000 }, (_, i) => `kept ${i}`);
  const tokens = await tokenizeAll(service, values);
  await run(place, 'keyring', 'rotate');
  const rows = () =>
    sql(place, 'select xmin::text, ctid::text, r.* from standin.records r order by ctid');
  const before = await rows();
  const newKek = join(place.folder, 'new-kek');
  writeFileSync(newKek, newKeyBytes(), { mode: 0o600 });
  const rewrapped = await run(place, 'keyring', 'rewrap', '--new-kek-file', newKek);
  expect(rewrapped).toEqual({ kek_id: expect.stringMatching(/^[0-9a-f]{16}$/), keys: 5 });
  expect(await rows()).toEqual(before);
  const wrappedBy = await sql(place, 'select distinct kek_id from standin.keyring');
  expect(wrappedBy).toEqual([{ kek_id: rewrapped.kek_id }]);
  expect(await run(place, 'keyring', 'rewrap', '--new-kek-file', newKek)).toEqual({
    ...rewrapped,
    keys: 0,
  });
  // It looks again, cannot unwrap with what it has, and needs not to.
  const told = () => service.output().includes('is not the one of this vault');
  await until(told, 'a warning');
  expect(await detokenizeAll(service, tokens)).toEqual(values);
  expect((await call(service, 'tokenize', { a: 'new' })).status).toBe(200);
  await service.stop();
  const refused = await runCli(['serve'], place, { PORT: '0', OPS_PORT: '0' });
  expect(refused.stderr).toContain('is not the one of this vault');
  copyFileSync(newKek, place.env.KEK_FILE ?? join(place.env.DATA_DIR!, 'kek'));
  const again = await start(place);
  expect(await detokenizeAll(again, tokens, service.api_key)).toEqual(values);
});
