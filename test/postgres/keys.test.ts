import { copyFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { kekOf } from '../../src/crypto/kek.ts';
import { Keyring } from '../../src/crypto/keyring.ts';
import { newKeyBytes } from '../../src/crypto/primitives.ts';
import { Unavailable } from '../../src/errors.ts';
import { kekSourceOf } from '../../src/kek/kek-source.ts';
import { FIRST_RECORD, readPage } from '../../src/store/record-walk.ts';
import { retireKey, rotateKey } from '../../src/vault/key-lifecycle.ts';
import { KeyringFollower } from '../../src/vault/keyring-follower.ts';
import { openKeys, wrap } from '../../src/vault/open-keys.ts';
import { JournalledWriters, UNDER_WAY } from '../support/journal.ts';
import { loseStandby, ownCluster, ownService, ownVault, vaultAt } from '../support/own.ts';
import { call, kinds, type Place, type Service, until } from '../support/service.ts';
import * as vault from '../support/vault.ts';

const { detokenizeAll, metric, openedVault, sealedWith, soon, sql, tokenizeAll } = vault;
const kind = kinds().at(-1)!;
const IN_FORCE_MS = 5_000;
const OTHER_KEK = 'is not the one of this vault';

/** Polls until every node seals with the version. */
async function inForce(nodes: Service[], version: number, timeoutMs = 30_000) {
  for (const node of nodes) {
    const isThere = async () => (await metric(node, 'standin_key_version')) === version;
    await until(isThere, `version ${version} on ${node.url}`, timeoutMs);
  }
}

async function versions(place: Place): Promise<Record<number, number>> {
  const count = 'select key_version, count(*)::int as n from standin.records group by key_version';
  const rows = await sql(place, count);
  return Object.fromEntries(rows.map(({ key_version: keyVersion, n }) => [keyVersion, n]));
}

const numbered = (name: string, count: number) =>
  Array.from({ length: count }, (_, i) => `${name} ${i}`);
const kekFileOf = ({ env }: Place) => env.KEK_FILE ?? join(env.DATA_DIR!, 'kek');

/** A follower that has read the keyring of a vault once. */
async function followerOf({ keys, source }: ReturnType<typeof openedVault>) {
  const follower = new KeyringFollower(keys, source, await openKeys(keys, source, 'tok', soon()));
  await follower.refresh();
  return follower;
}

describe.skipIf(kind !== 'server')('two nodes', () => {
  test('C12: rotate, reseal and retire under load: no failed request, new records have the new version in 5 s, old tokens all restore', async () => {
    const { place, nodes, service, json } = await ownVault({ nodes: 2 });
    const old = numbered('old', 2_000);
    const tokens = await tokenizeAll(service, old);
    const load = new JournalledWriters({ place, nodes, api_key: service.api_key }, 300);
    await load.progress(100);
    expect(await json('keyring rotate')).toEqual({ version: 2 });
    await inForce(nodes, 2, IN_FORCE_MS);
    // What was sealed before is stored by then.
    await load.progress(10 * UNDER_WAY);
    const before = await versions(place);
    const marks = load.acknowledged;
    await load.progress(300);
    // All that came since is of the new version: of the old one there is not one more.
    const after = await versions(place);
    expect(after[1]).toBe(before[1]);
    expect(after[2]! - (before[2] ?? 0)).toBeGreaterThanOrEqual(
      load.acknowledged - marks - UNDER_WAY,
    );
    const all = { key_version: 2, resealed: before[1], bad: 0, is_complete: true };
    expect(await json('keyring reseal')).toMatchObject(all);
    // As if the keys had been there for a while.
    await sql(place, "update standin.keyring set created_at = created_at - interval '2 minutes'");
    expect(await json('keyring retire 1')).toEqual({ version: 1 });
    await load.progress(200);
    await load.stop();
    expect([[...load.failures], load.cuts, load.wrong]).toEqual([[], 0, []]);
    expect(Object.keys(await versions(place))).toEqual(['2']);
    const pairs = load.all().concat(tokens.map((token, i) => ({ token, value: old[i]! })));
    for (const node of nodes) {
      const given = pairs.map(({ token }) => token);
      const restored = await detokenizeAll(node, given, service.api_key);
      expect(restored).toEqual(pairs.map(({ value }) => value));
    }
    expect(await json('verify')).toMatchObject({ bad: 0, next: null });
  });

  test('C17: after a rotation a value has the same token, and repeating it adds no record', async () => {
    const { place, service, json, tokenized } = await ownVault();
    const values = numbered('stays', 500);
    const tokens = await tokenizeAll(service, values);
    await json('keyring rotate');
    await inForce([service], 2);
    expect(await tokenized({ values }, await ownService(place))).toEqual({ values: tokens });
    expect(await versions(place)).toEqual({ 1: 500 });
  });
});

test('rotations at once each add a version, and none twice', async () => {
  const { place, service } = await ownVault();
  const { keys, source } = openedVault(place);
  const made = await Promise.all(Array.from({ length: 4 }, () => rotateKey(keys, source)));
  expect(made.map(({ version }) => version).toSorted()).toEqual([2, 3, 4, 5]);
  await inForce([service], 5);
});

test('a node that cannot read the KEK any more goes on with its keys, says so once, and takes the new one when it can', async () => {
  const { place, service, tokenized, restored } = await ownVault();
  const kekFile = kekFileOf(place);
  const { keys } = openedVault(place);
  const { token } = await tokenized({ token: 'before' });
  copyFileSync(kekFile, `${kekFile}.copy`);
  renameSync(kekFile, `${kekFile}.away`);
  const copy = kekSourceOf({ kek: { KEK_FILE: `${kekFile}.copy` }, dataDir: '', databaseUrl: '' });
  await rotateKey(keys, copy);
  const warnings = () => service.output().split('the keyring cannot be renewed').length - 1;
  await until(() => warnings() === 1, 'a warning');
  expect(service.output()).toContain('The key-encryption key cannot be read from');
  const ageS = () => metric(service, 'standin_keyring_age_seconds');
  const before = await ageS();
  await until(async () => (await ageS()) > before, 'an age that grows');
  await tokenized({ a: 'meanwhile' });
  expect(await restored({ token })).toEqual({ token: 'before' });
  expect(await metric(service, 'standin_key_version')).toBe(1);
  renameSync(`${kekFile}.away`, kekFile);
  await inForce([service], 2);
  await until(() => service.output().includes('the keyring can be read again'), 'its line');
  expect(warnings()).toBe(1);
  await tokenized({ a: 'after' });
  expect(await versions(place)).toEqual({ 1: 2, 2: 1 });
});

test('C15: records whose key version is gone: an error and never another value, and doctor counts them', async () => {
  const { place, service, json, run, restored } = await ownVault();
  const values = ['Ann Lee', 'Bob Ray', 'Cy Vance'];
  const tokens = await tokenizeAll(service, values);
  // The node has opened them.
  expect(await tokenizeAll(service, values)).toEqual(tokens);
  await json('keyring rotate');
  await inForce([service], 2);
  const [other] = await tokenizeAll(service, ['Dee Wong']);
  await sql(place, "delete from standin.keyring where purpose = 'dek' and version = 1");
  const failed = () => call(service, 'detokenize', { tokens });
  await until(async () => (await failed()).status === 500, 'version 1 is dropped');
  const error = { error: 'internal_error', message: 'key version not in the keyring' };
  expect((await failed()).body).toEqual(error);
  expect(await restored({ other })).toEqual({ other: 'Dee Wong' });
  const findings: any[] = await json('doctor');
  const detail = expect.stringContaining('3 with version 1');
  expect(findings).toContainEqual({ check: 'records', status: 'warning', detail });
  const { code, stdout, stderr } = await run('verify --json');
  expect([code, JSON.parse(stdout)]).toMatchObject([1, { records: 4, bad: 3 }]);
  expect(stderr.match(/: key version not in the keyring/g)).toHaveLength(3);
  // Who tokenizes such a value gets a token that opens.
  expect(await tokenizeAll(service, values)).toEqual(tokens);
  expect(await detokenizeAll(service, tokens)).toEqual(values);
});

test('the key of another vault in the row of a version is never taken: nothing is sealed until the own key is back', async () => {
  const { place, service } = await ownVault();
  const opened = openedVault(place);
  const follower = await followerOf(opened);
  const { keys: own } = follower.latest;
  const wrapping = async (bytes: Buffer) => {
    const key = wrap(kekOf(await opened.source.read()), 'dek', 1, bytes);
    await opened.keys.locked(soon(), (locked) => locked.update(key));
  };
  await wrapping(newKeyBytes());
  await follower.refresh();
  expect(follower.latest).toMatchObject({ keys: own, asOfMs: -Infinity, failure: 'key_missing' });
  let n = 0;
  const status = async () => (await call(service, 'tokenize', { a: `new ${n++}` })).status;
  await until(async () => (await status()) === 500, 'a refusal');
  await wrapping(own.find(({ purpose }) => purpose === 'dek')!.bytes);
  await until(async () => (await status()) === 200, 'the own key');
});

test('a row that does not unwrap is tried after 2 s, 4 s, 8 s and then each 10 s, and told once; a standby that is away comes first', async () => {
  let nowMs = 1_000_000;
  const clock = vi.spyOn(process.hrtime, 'bigint');
  clock.mockImplementation(() => BigInt(nowMs) * 1_000_000n);
  onTestFinished(() => clock.mockRestore());
  const { place } = await ownVault();
  const { keys, source } = openedVault(place);
  const opened = await openKeys(keys, source, 'tok', soon());
  const told: unknown[] = [];
  const tell = (problem: unknown) => told.push(problem?.constructor.name);
  const follower = new KeyringFollower(keys, source, opened, tell);
  const reads = vi.spyOn(source, 'read');
  const readsAfter = async (ms: number) => {
    nowMs += ms;
    await follower.refresh();
    return reads.mock.calls.length;
  };
  const change = (bytes: Buffer) =>
    sql(place, "update standin.keyring set wrapped = $1 where purpose = 'dek'", [bytes]);
  const dek = opened.find(({ purpose }) => purpose === 'dek')!;
  const again = wrap(kekOf(await source.read()), 'dek', 1, dek.bytes).wrapped;
  for (const back of [dek.wrapped, again]) {
    await change(Buffer.alloc(dek.wrapped.length));
    let tries = await readsAfter(0);
    for (const pauseS of [2, 4, 8, 10, 10]) {
      expect(await readsAfter(pauseS * 1_000 - 1)).toBe(tries);
      expect(await readsAfter(1)).toBe(++tries);
    }
    vi.spyOn(keys, 'listDurable').mockRejectedValueOnce(new Unavailable('database_unavailable'));
    await readsAfter(0);
    await change(back);
    await readsAfter(0);
    expect(told.splice(0)).toEqual(['OperatorError', 'Unavailable', undefined]);
  }
});

describe.skipIf(kind !== 'server')('with a standby that is away', () => {
  async function newAbsence() {
    const cluster = await ownCluster();
    const { place, json } = await ownVault({ serverUrl: cluster.url('postgres'), nodes: 0 });
    await json('migrate');
    const opened = openedVault(place);
    const follower = await followerOf(opened);
    return { ...opened, place, follower, lose: () => loseStandby(cluster) };
  }

  test('a key that a failover would lose seals nothing', async () => {
    const { place, source, follower, lose } = await newAbsence();
    const back = await lose();
    // As a rotation whose wait for the standby was cancelled: visible, and on this server only.
    const { kek_id: kekId, wrapped } = wrap(kekOf(await source.read()), 'dek', 2, newKeyBytes());
    const insert = `insert into standin.keyring (purpose, version, kek_id, wrapped) values ('dek', 2, '${kekId}', '\\x${wrapped.toString('hex')}')`;
    await sql(place, `begin; set local synchronous_commit = local; ${insert}; commit`);
    const latest = async () => {
      await follower.refresh();
      return follower.latest;
    };
    await until(async () => (await latest()).failure !== undefined, 'a failed read');
    // It may open records.
    expect(follower.latest).toMatchObject({ isDurable: false, failure: 'database_unavailable' });
    await back();
    await until(async () => (await latest()).isDurable && follower.primaryVersion === 2, 'the key');
  });

  test('a reseal does not say that nothing is left; verify goes on', async () => {
    const { pool, follower, records, lose } = await newAbsence();
    await records.insert([sealedWith(new Keyring(follower.latest.keys), 'Ann Lee', 'a_tok')]);
    await lose();
    const page = (without?: number) =>
      readPage(pool, FIRST_RECORD, without, performance.now() + 1_000);
    await expect(page(1)).rejects.toBeInstanceOf(Unavailable);
    expect((await page()).records).toHaveLength(1);
  });
});

test('the row of the primary is lost: nothing more is sealed with it, the process still opens its records, and goes on when the row is back', async () => {
  const { place, service, json } = await ownVault();
  await json('keyring rotate');
  await inForce([service], 2);
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
  expect(await json('verify')).toMatchObject({ bad: 0 });
});

test('a forgotten record is passed by: it keeps no key version alive, and is neither opened nor resealed', async () => {
  const { place, service, json } = await ownVault();
  const [token] = await tokenizeAll(service, ['Ann Lee', 'Bob Ray']);
  const { keys, source } = openedVault(place);
  await json(['forget', token!, '--yes']);
  await rotateKey(keys, source);
  expect(await json('keyring reseal')).toMatchObject({ resealed: 1, bad: 0 });
  await retireKey(keys, 1, 0);
  expect(await json('verify')).toMatchObject({ records: 1, bad: 0 });
  expect(await versions(place)).toEqual({ 1: 1, 2: 1 });
});

test('C14: rewrap touches the key rows only; nodes that run go on, and only the new KEK opens the vault', async () => {
  const { place, service, json, noStart, tokenized } = await ownVault();
  const values = numbered('kept', 1_000);
  const tokens = await tokenizeAll(service, values);
  await json('keyring rotate');
  const rows = () =>
    sql(place, 'select xmin::text, ctid::text, r.* from standin.records r order by ctid');
  const before = await rows();
  const newKek = join(place.folder, 'new-kek');
  writeFileSync(newKek, newKeyBytes(), { mode: 0o600 });
  const rewrap = () => json(['keyring', 'rewrap', '--new-kek-file', newKek]);
  const rewrapped = await rewrap();
  expect(rewrapped).toEqual({ kek_id: expect.stringMatching(/^[0-9a-f]{16}$/), keys: 5 });
  expect(await rows()).toEqual(before);
  const wrappedBy = await sql(place, 'select distinct kek_id from standin.keyring');
  expect(wrappedBy).toEqual([{ kek_id: rewrapped.kek_id }]);
  expect(await rewrap()).toEqual({ ...rewrapped, keys: 0 });
  // It reads again, cannot unwrap with what it has, and needs not to.
  await until(() => service.output().includes(OTHER_KEK), 'a warning');
  expect(await detokenizeAll(service, tokens)).toEqual(values);
  await tokenized({ a: 'new' });
  await service.stop();
  expect(await noStart()).toContain(OTHER_KEK);
  copyFileSync(newKek, kekFileOf(place));
  const again = await vaultAt(place);
  expect(await detokenizeAll(again.service, tokens, service.api_key)).toEqual(values);
});
