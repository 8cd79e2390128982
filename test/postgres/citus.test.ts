import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { PolicyFollower } from '../../src/policy/policy-follower.ts';
import { PolicyStore } from '../../src/store/policies.ts';
import type { Pool } from '../../src/store/pool.ts';
import { distribute, migrate, readMigrations } from '../../src/store/schema.ts';
import { retireKey, rotateKey } from '../../src/vault/key-lifecycle.ts';
import { CitusCluster, citusIsInstalled, joinCitus } from '../support/citus.ts';
import { JournalledWriters } from '../support/journal.ts';
import { expectThereAndBack } from '../support/pairs.ts';
import { type PostgresCluster, query } from '../support/postgres.ts';
import {
  call,
  leastPrivilegePlace,
  newPlace,
  type Place,
  runCli,
  type Service,
  startService,
  until,
} from '../support/service.ts';
import {
  detokenizeAll,
  openedVault,
  openTestPool,
  sealedWith,
  soon,
  tokenizeAll,
} from '../support/vault.ts';

const TABLES = [
  'api_key_uses',
  'api_keys',
  'clients',
  'durable_policies',
  'keyring',
  'migrations',
  'policies',
  'records',
  'settings',
];

/** What is so on a coordinator with two workers, and on no plain PostgreSQL. */
describe.skipIf(!citusIsInstalled)('the vault on Citus', () => {
  let cluster: CitusCluster;
  beforeAll(async () => {
    cluster = await CitusCluster.start();
  });
  afterAll(() => cluster?.stop());

  const cleanups: (() => void | Promise<void>)[] = [];
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  });

  async function newVault(): Promise<Place> {
    const place = await newPlace('server', cluster.serverUrl);
    cleanups.push(place.remove);
    return place;
  }

  /** Its database has no Citus yet. */
  async function newPlainVault(): Promise<Place> {
    const place = await newPlace('server', cluster.coordinator.url('template1'));
    cleanups.push(place.remove);
    return place;
  }

  async function start(place: Place): Promise<Service> {
    const service = await startService(place);
    cleanups.push(() => service.stop());
    return service;
  }

  function openPool(place: Place, connections?: number): Pool {
    const pool = openTestPool(place, connections);
    cleanups.push(() => pool.end());
    return pool;
  }

  const kindOfTables = (place: Place) =>
    query(
      place.env.DATABASE_URL!,
      'select table_name::text as name, citus_table_type as kind, distribution_column as by from citus_tables order by 1',
    );

  const everyTable = TABLES.map((name) => ({
    name: `standin.${name}`,
    kind: name === 'records' ? 'distributed' : 'reference',
    by: name === 'records' ? 'token_fingerprint' : '<none>',
  }));

  test('is served by a role that has the rights of the service alone', async () => {
    const place = await leastPrivilegePlace(cluster.serverUrl);
    cleanups.push(place.remove);
    const service = await start(place);
    const tokens = (await call(service, 'tokenize', { name: 'Ann Lee' })).body.data;
    expect((await call(service, 'detokenize', tokens)).body.data).toEqual({ name: 'Ann Lee' });
    const url = place.service!.env.DATABASE_URL!;
    for (const refused of ['delete from standin.records', 'truncate standin.clients'])
      await expect(query(url, refused)).rejects.toThrow(/permission denied/);
  });

  /** Rows of standin.records on each worker. */
  async function spread(place: Place): Promise<number[]> {
    const rows = await query(
      place.env.DATABASE_URL!,
      `select nodeport, sum(result::bigint) as rows
       from run_command_on_shards('standin.records', 'select count(*) from %s')
       join pg_dist_placement using (shardid) join pg_dist_node using (groupid)
       group by nodeport order by nodeport`,
    );
    expect(rows.map((row) => row.nodeport)).toEqual(
      cluster.workers.map((worker) => worker.port).sort((a, b) => a - b),
    );
    return rows.map((row) => Number(row.rows));
  }

  /** Bytes that the coordinator keeps of the tables as they were before. */
  async function leftOnCoordinator(place: Place): Promise<number> {
    const [left] = await query(
      place.env.DATABASE_URL!,
      'select sum(pg_relation_size(logicalrelid)) as bytes from pg_dist_partition',
    );
    return Number(left!.bytes);
  }

  test('migrate distributes, says so once, and the second time there is nothing to do', async () => {
    const place = await newVault();
    const json = async () => JSON.parse((await runCli(['migrate', '--json'], place)).stdout);
    const applied = readMigrations().map((migration) => migration.name);
    expect(await json()).toEqual({ applied, distributed: TABLES });
    expect(await kindOfTables(place)).toEqual(everyTable);
    expect(await json()).toEqual({ applied: [], distributed: [] });
    expect((await runCli(['migrate'], place)).stdout).toBe('The schema is up to date.\n');

    const other = await newVault();
    expect((await runCli(['migrate'], other)).stdout).toBe(
      `Applied ${applied.join(', ')}. Distributed over the nodes of Citus: ${TABLES.join(', ')}.\n`,
    );
  });

  test('records are spread over the workers, and tokens, API keys, commands and doctor work', async () => {
    const place = await newVault();
    const service = await start(place);
    const values = Array.from({ length: 500 }, (_, i) => `value ${i}`);
    const { tokens } = (await call(service, 'tokenize', { tokens: values })).body.data;
    expect((await call(service, 'tokenize', { tokens: values })).body.data.tokens).toEqual(tokens);
    expect((await call(service, 'detokenize', { tokens })).body.data.tokens).toEqual(values);
    const rows = await spread(place);
    expect(rows.reduce((sum, n) => sum + n)).toBe(500);
    for (const n of rows) expect(n).toBeGreaterThan(100);
    expect(await leftOnCoordinator(place)).toBe(0);

    const run = async (...args: string[]) => {
      const { code, stdout, stderr } = await runCli([...args, '--json'], place);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      return JSON.parse(stdout);
    };
    const { client_id: clientId, api_key: apiKey } = await run(
      'client',
      'create',
      '--name',
      'billing',
    );
    expect((await call(service, 'tokenize', { a: 'b' }, apiKey)).status).toBe(200);
    await run('api-key', 'issue', '--client', clientId);
    const [{ api_key_id: apiKeyId }] = await run('api-key', 'list', '--client', clientId);
    const revoked = await run('api-key', 'revoke', apiKeyId);
    expect(await run('api-key', 'revoke', apiKeyId)).toEqual(revoked);
    const disabled = await run('client', 'disable', clientId);
    expect(await run('client', 'disable', clientId)).toEqual(disabled);
    const findings = await run('doctor');
    expect(JSON.stringify(findings)).not.toContain('problem');
    await expect(
      query(place.env.DATABASE_URL!, "insert into standin.api_keys values ('k', 'nobody', '')"),
    ).rejects.toThrow('foreign key');
  });

  test('pairs are imported and exported, and both rows of a pair are spread over the workers', async () => {
    const place = await newVault();
    const values = await expectThereAndBack(place, await start(place));
    const rows = await spread(place);
    // A row of each own value, a record and an alias of each imported one.
    expect(rows.reduce((sum, n) => sum + n)).toBe(3 * values.length);
    for (const n of rows) expect(n).toBeGreaterThan(values.length);
    expect(await leftOnCoordinator(place)).toBe(0);
    expect(await kindOfTables(place)).toEqual(everyTable);
  });

  test('eight nodes that migrate at once: one of them distributes', async () => {
    const place = await newVault();
    const all = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const pool = openPool(place, 1);
        await migrate(pool, soon());
        return distribute(pool, soon());
      }),
    );
    expect(all.flat()).toEqual(TABLES);
    expect(await kindOfTables(place)).toEqual(everyTable);
  });

  test('a vault that gets Citus while it is written to: nothing is lost, and nothing is left where it was', async () => {
    const place = await newPlainVault();
    const service = await start(place);
    expect(service.output()).not.toContain('distributed');
    const writers = new JournalledWriters(place, () => service, service.api_key);
    await writers.progress(500);
    await joinCitus(cluster.serverUrl, place.env.DATABASE_URL!);
    await writers.progress(100);
    const { stdout } = await runCli(['migrate', '--json'], place);
    expect(JSON.parse(stdout)).toEqual({ applied: [], distributed: TABLES });
    await writers.progress(100);
    await writers.stop();
    const written = await writers.verify(service, service.api_key);
    const rows = await spread(place);
    expect(rows.reduce((sum, n) => sum + n)).toBeGreaterThanOrEqual(written);
    expect(await leftOnCoordinator(place)).toBe(0);
    expect(await kindOfTables(place)).toEqual(everyTable);
  });

  test('a later migration alters what is distributed, and its new table is distributed after it', async () => {
    const place = await newVault();
    const pool = openPool(place);
    await migrate(pool, soon());
    await distribute(pool, soon());
    const later = {
      version: readMigrations().at(-1)!.version + 1,
      name: 'later',
      sql: `alter table standin.records add column note text;
        create index records_note on standin.records (note);
        alter table standin.clients add column note text;
        create table standin.notes (client_id text primary key references standin.clients (client_id));`,
    };
    expect(await migrate(pool, soon(), [...readMigrations(), later])).toEqual(['later']);
    expect(await distribute(pool, soon())).toEqual(['notes']);
    const columns = await query(
      place.env.DATABASE_URL!,
      "select distinct result from run_command_on_shards('standin.records', $$select count(*) from pg_attribute where attrelid = '%s'::regclass and attname = 'note'$$)",
    );
    expect(columns).toEqual([{ result: '1' }]);
    expect(await kindOfTables(place)).toEqual(
      [...everyTable, { name: 'standin.notes', kind: 'reference', by: '<none>' }].sort((a, b) =>
        a.name < b.name ? -1 : 1,
      ),
    );
  });

  test('a key is rotated, all records resealed and verified, and the old key retired, as on one server', async () => {
    const place = await newVault();
    const service = await start(place);
    const values = Array.from({ length: 3_000 }, (_, i) => `value ${i}`);
    const tokens = await tokenizeAll(service, values);
    const json = async (...args: string[]) => {
      const { code, stdout, stderr } = await runCli([...args, '--json'], place);
      expect(code, stderr).toBe(0);
      return JSON.parse(stdout);
    };
    await json('keyring', 'rotate');
    expect(await json('keyring', 'reseal')).toMatchObject({ resealed: 3_000, bad: 0 });
    expect(await json('keyring', 'reseal')).toMatchObject({ resealed: 0, bad: 0 });
    const url = place.env.DATABASE_URL!;
    await query(url, "update standin.keyring set created_at = '2020-01-01'");
    await json('keyring', 'retire', '1');
    expect(await json('verify')).toMatchObject({ records: 3_000, bad: 0, next: null });
    expect(await detokenizeAll(service, tokens)).toEqual(values);
  });

  test('records of a closed key version are refused, one that does not open is sealed again, and retire counts on all nodes', async () => {
    const place = await newVault();
    const service = await start(place);
    const values = Array.from({ length: 200 }, (_, i) => `closed ${i}`);
    const tokens = await tokenizeAll(service, values);
    const url = place.env.DATABASE_URL!;
    await query(url, "update standin.records set sealed = '\\xdeadbeef'");
    expect(await tokenizeAll(service, values)).toEqual(tokens);
    expect(await detokenizeAll(service, tokens)).toEqual(values);
    const { keys, source, records, keyring } = openedVault(place);
    const late = sealedWith(await keyring(), 'late', 'abc_tok');
    await rotateKey(keys, source);
    await keys.locked(soon(), (locked) => locked.close(1));
    expect(await records.insert([late])).toEqual(['key_retired']);
    expect(await records.insert([late], 100)).toEqual(['key_retired']);
    await expect(retireKey(keys, 1, 0)).rejects.toThrow('200 records need key version 1');
    expect((await runCli(['keyring', 'reseal'], place)).code).toBe(0);
    await retireKey(keys, 1, 0);
    expect(await detokenizeAll(service, tokens)).toEqual(values);
  });

  test('versions of the policy are made one at a time, with their date and user', async () => {
    const place = await newVault();
    await runCli(['migrate'], place);
    const stores = Array.from({ length: 4 }, () => new PolicyStore(openPool(place, 1)));
    for (let round = 0; round < 3; round++) {
      const applied = await Promise.all(
        stores.map((one) => one.apply('version: 1', round, soon())),
      );
      expect(applied.filter((one) => one !== undefined)).toEqual([
        { version: round + 1, applied_at: expect.any(Date), applied_by: 'postgres' },
      ]);
    }
    const follower = new PolicyFollower(stores[0]!);
    expect(await follower.refresh()).toMatchObject({ policy: { version: 3 }, problem: undefined });
    const rows = await query(
      place.env.DATABASE_URL!,
      "select distinct result from run_command_on_all_nodes('select count(distinct applied_at) from standin.policies')",
    );
    expect(rows).toEqual([{ result: '3' }]);
  });

  /** Commits of a worker wait from then on, for a standby that never comes; until `back`. */
  async function loseStandby(worker: PostgresCluster): Promise<() => Promise<void>> {
    const url = worker.directUrl('postgres');
    await query(url, "alter system set synchronous_standby_names = 'absent'");
    await query(url, 'select pg_reload_conf()');
    const probe = query(url, "select pg_logical_emit_message(true, 'probe', '')");
    const isWaiting = "select 1 from pg_stat_activity where wait_event = 'SyncRep'";
    await until(async () => (await query(url, isWaiting)).length > 0, 'a commit that waits');
    const back = async () => {
      await query(url, 'alter system reset synchronous_standby_names');
      await query(url, 'select pg_reload_conf()');
      await probe;
    };
    cleanups.push(back);
    return back;
  }

  test('a value that was stored before is not acknowledged while the standby of its worker is away', async () => {
    const place = await newVault();
    const [one, other] = [await start(place), await start(place)];
    const values = Array.from({ length: 40 }, (_, i) => `repeated ${i}`);
    const { a: tokens } = (await call(one, 'tokenize', { a: values })).body.data;
    const back = await Promise.all(cluster.workers.map(loseStandby));
    // Found by a look-up, and by an insert; in all shards, and in one.
    const asked = [one, other].flatMap((node) =>
      [values, ['repeated 0']].map((a) => call(node, 'tokenize', { a }, one.api_key)),
    );
    const answers = (await Promise.all(asked)).map(({ status, body }) => [status, body.message]);
    expect(answers).toEqual(Array(4).fill([500, 'database unavailable']));
    for (const resume of back) await resume();
    for (const node of [one, other]) {
      const again = await call(node, 'tokenize', { a: values }, one.api_key);
      expect(again.body.data).toEqual({ a: tokens });
    }
  });

  test('the user of the service has few rights: it serves, but does not distribute', async () => {
    const place = await newPlainVault();
    const url = place.env.DATABASE_URL!;
    await runCli(['migrate'], place);
    const user = `app_${new URL(url).pathname.slice(1)}`;
    await query(
      url,
      `create role ${user} login; grant usage on schema standin to ${user};
       grant select on all tables in schema standin to ${user}; grant insert on standin.records to ${user}`,
    );
    await (await startService(place)).stop();
    const ofUser = new URL(url);
    ofUser.username = user;
    const asUser = { ...place, env: { ...place.env, DATABASE_URL: ofUser.href } };
    await joinCitus(cluster.serverUrl, url);
    const refused = await runCli(['serve'], asUser, { PORT: '0', OPS_PORT: '0' });
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain('Run standin migrate as the owner of its tables');

    const created = JSON.parse(
      (await runCli(['client', 'create', '--name', 'a', '--json'], place)).stdout,
    );
    expect(await kindOfTables(place)).toEqual(everyTable);
    const service = await start(asUser);
    const { a: token } = (await call(service, 'tokenize', { a: 'Ann' }, created.api_key)).body.data;
    expect((await call(service, 'detokenize', { token }, created.api_key)).body.data).toEqual({
      token: 'Ann',
    });
  });
});
