import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { PolicyFollower } from '../../src/policy/policy-follower.ts';
import { PolicyStore } from '../../src/store/policies.ts';
import { distribute, migrate, readMigrations } from '../../src/store/schema.ts';
import { retireKey, rotateKey } from '../../src/vault/key-lifecycle.ts';
import { type CitusCluster, citusIsInstalled, joinCitus, startCitus } from '../support/citus.ts';
import { JournalledWriters } from '../support/journal.ts';
import { ask, loseStandby, ownPool, ownService, ownVault } from '../support/own.ts';
import { expectThereAndBack } from '../support/pairs.ts';
import { call, createClient, leastPrivilegePlace, makeRole } from '../support/service.ts';
import * as vault from '../support/vault.ts';

const { detokenizeAll, leased, openedVault, sealedWith, soon, tokenizeAll } = vault;
const TABLES =
  'api_key_uses api_keys clients durable_policies keyring migrations policies records settings'.split(
    ' ',
  );
const ofTable = (name: string) => ({
  name: `standin.${name}`,
  kind: name === 'records' ? 'distributed' : 'reference',
  by: name === 'records' ? 'token_fingerprint' : '<none>',
});
const EVERY_TABLE = TABLES.map(ofTable);
const TABLE_KINDS =
  'select table_name::text as name, citus_table_type as kind, distribution_column as by from citus_tables order by 1';
const numbered = (name: string, count: number) =>
  Array.from({ length: count }, (_, i) => `${name} ${i}`);

/** What is so on a coordinator with two workers, and on no plain PostgreSQL. */
describe.skipIf(!citusIsInstalled)('the vault on Citus', () => {
  let cluster: CitusCluster;
  beforeAll(async () => {
    cluster = await startCitus();
    return () => cluster.stop();
  });

  /** @param serverUrl one of `template1`: the database has no Citus yet */
  async function newVault(nodes = 0, serverUrl = cluster.serverUrl) {
    const made = await ownVault({ kind: 'server', nodes, serverUrl });
    const { sql } = made;
    /** Rows of standin.records on each worker, of which each has its share; their sum. */
    const spread = async (least: number) => {
      const rows = await sql(
        `select nodeport, sum(result::bigint)::int as rows
         from run_command_on_shards('standin.records', 'select count(*) from %s')
         join pg_dist_placement using (shardid) join pg_dist_node using (groupid)
         group by nodeport order by nodeport`,
      );
      const ports = cluster.workers.map(({ port }) => port).sort((a, b) => a - b);
      expect(rows.map((row) => row.nodeport)).toEqual(ports);
      for (const row of rows) expect(row.rows).toBeGreaterThan(least);
      // The coordinator keeps nothing of the tables as they were before.
      const left =
        'select sum(pg_relation_size(logicalrelid))::int as bytes from pg_dist_partition';
      expect(await sql(left)).toEqual([{ bytes: 0 }]);
      return rows.reduce((sum, row) => sum + row.rows, 0);
    };
    const expectDistributed = async () => expect(await sql(TABLE_KINDS)).toEqual(EVERY_TABLE);
    return { ...made, spread, expectDistributed };
  }
  const plainUrl = () => cluster.coordinator.url('template1');

  test('a key is rotated, all records resealed and verified, and the old key retired, as on one server', async () => {
    const { service, json, sql } = await newVault(1);
    const values = numbered('value', 3_000);
    const tokens = await tokenizeAll(service, values);
    await json('keyring rotate');
    expect(await json('keyring reseal')).toMatchObject({ resealed: 3_000, bad: 0 });
    expect(await json('keyring reseal')).toMatchObject({ resealed: 0, bad: 0 });
    await sql("update standin.keyring set created_at = '2020-01-01'");
    await json('keyring retire 1');
    expect(await json('verify')).toMatchObject({ records: 3_000, bad: 0, next: null });
    expect(await detokenizeAll(service, tokens)).toEqual(values);
  });

  test('versions of the policy are made one at a time, with their date and user', async () => {
    const { place, json, sql } = await newVault();
    await json('migrate');
    const stores = Array.from({ length: 4 }, () => new PolicyStore(ownPool(place, 1)));
    for (let round = 0; round < 3; round++) {
      const applying = stores.map((one) => one.apply(`version: 1 # ${round}`, round, soon()));
      const applied = new Set((await Promise.all(applying)).map((one) => one?.version));
      expect([...applied]).toEqual([round + 1]);
    }
    const by = { applied_at: expect.any(Date), applied_by: 'postgres' };
    expect((await stores[0]!.list(soon()))[0]).toEqual({ version: 3, ...by });
    const follower = new PolicyFollower(stores[0]!);
    expect(await follower.refresh()).toMatchObject({ policy: { version: 3 }, problem: undefined });
    const rows = await sql(
      "select distinct result from run_command_on_all_nodes('select count(distinct applied_at) from standin.policies')",
    );
    expect(rows).toEqual([{ result: '3' }]);
  });

  test('is served by a role that has the rights of the service alone', async () => {
    const place = await leastPrivilegePlace(cluster.serverUrl);
    onTestFinished(place.remove);
    const service = await ownService(place);
    const tokens = (await call(service, 'tokenize', { name: 'Ann Lee' })).body.data;
    expect((await call(service, 'detokenize', tokens)).body.data).toEqual({ name: 'Ann Lee' });
    const ofService = { ...place, env: place.service!.env };
    for (const refused of ['delete from standin.records', 'truncate standin.clients'])
      await expect(vault.sql(ofService, refused)).rejects.toThrow(/permission denied/);
  });

  test('migrate distributes, says so once, and the second time there is nothing to do', async () => {
    const { json, text, expectDistributed } = await newVault();
    const applied = readMigrations().map((migration) => migration.name);
    expect(await json('migrate')).toEqual({ applied, distributed: TABLES });
    await expectDistributed();
    expect(await json('migrate')).toEqual({ applied: [], distributed: [] });
    expect(await text('migrate')).toBe('The schema is up to date.\n');
    expect(await (await newVault()).text('migrate')).toBe(
      `Applied ${applied.join(', ')}. Distributed over the nodes of Citus: ${TABLES.join(', ')}.\n`,
    );
  });

  test('records are spread over the workers, and tokens, API keys, commands and doctor work', async () => {
    const { place, service, json, sql, tokenized, restored, spread } = await newVault(1);
    const values = numbered('value', 500);
    const tokens = await tokenized(values);
    expect(await tokenized(values)).toEqual(tokens);
    expect(await restored(tokens)).toEqual(values);
    expect(await spread(100)).toBe(500);
    const { client_id: clientId, api_key: apiKey } = await createClient(place);
    expect((await call(service, 'tokenize', { a: 'b' }, apiKey)).status).toBe(200);
    await json(`api-key issue --client ${clientId}`);
    const [{ api_key_id: id }] = await json(`api-key list --client ${clientId}`);
    for (const command of [`api-key revoke ${id}`, `client disable ${clientId}`])
      expect(await json(command)).toEqual(await json(command));
    expect(JSON.stringify(await json('doctor'))).not.toContain('problem');
    const stray = "insert into standin.api_keys values ('k', 'nobody', '')";
    await expect(sql(stray)).rejects.toThrow('foreign key');
  });

  test('pairs are imported and exported, and both rows of a pair are spread over the workers', async () => {
    const { place, service, spread, expectDistributed } = await newVault(1);
    const values = await expectThereAndBack(place, service);
    // A row of each own value, a record and an alias of each imported one.
    expect(await spread(values.length)).toBe(3 * values.length);
    await expectDistributed();
  });

  test('eight nodes that migrate at once: one of them distributes', async () => {
    const { place, expectDistributed } = await newVault();
    const bringUp = async () => {
      const pool = ownPool(place, 1);
      await migrate(pool, soon());
      return distribute(pool, soon());
    };
    const all = await Promise.all(Array.from({ length: 8 }, bringUp));
    expect(all.flat()).toEqual(TABLES);
    await expectDistributed();
  });

  test('a vault that gets Citus while it is written to: nothing is lost, and nothing is left where it was', async () => {
    const vault = await newVault(1, plainUrl());
    const { place, service, json, spread, expectDistributed } = vault;
    expect(service.output()).not.toContain('distributed');
    const writers = new JournalledWriters({ ...vault, api_key: service.api_key });
    await writers.progress(500);
    await joinCitus(cluster.serverUrl, place.env.DATABASE_URL!);
    await writers.progress(100);
    expect(await json('migrate')).toEqual({ applied: [], distributed: TABLES });
    await writers.progress(100);
    await writers.stop();
    const written = await writers.verify(service, service.api_key);
    expect(await spread(0)).toBeGreaterThanOrEqual(written);
    await expectDistributed();
  });

  test('a later migration alters what is distributed, and its new table is distributed after it', async () => {
    const { place, sql } = await newVault();
    const pool = ownPool(place);
    await migrate(pool, soon());
    await distribute(pool, soon());
    const version = readMigrations().at(-1)!.version + 1;
    const statements = `alter table standin.records add column note text;
      create index records_note on standin.records (note);
      alter table standin.clients add column note text;
      create table standin.notes (client_id text primary key references standin.clients (client_id));`;
    const later = { version, name: 'later', sql: statements };
    expect(await migrate(pool, soon(), [...readMigrations(), later])).toEqual(['later']);
    expect(await distribute(pool, soon())).toEqual(['notes']);
    const columns = await sql(
      "select distinct result from run_command_on_shards('standin.records', $$select count(*) from pg_attribute where attrelid = '%s'::regclass and attname = 'note'$$)",
    );
    expect(columns).toEqual([{ result: '1' }]);
    expect(await sql(TABLE_KINDS)).toEqual([...TABLES, 'notes'].sort().map(ofTable));
  });

  test('records of a closed key version are refused, one that does not open is sealed again, and retire counts on all nodes', async () => {
    const { place, service, json, sql } = await newVault(1);
    const values = numbered('closed', 200);
    const tokens = await tokenizeAll(service, values);
    await sql("update standin.records set sealed = '\\xdeadbeef'");
    expect(await tokenizeAll(service, values)).toEqual(tokens);
    expect(await detokenizeAll(service, tokens)).toEqual(values);
    const { keys, source, records, keyring } = openedVault(place);
    const late = sealedWith(await keyring(), 'late', 'abc_tok');
    await rotateKey(keys, source);
    await keys.locked(soon(), (locked) => locked.close(1));
    expect(await records.insert([late])).toEqual(['key_retired']);
    expect(await records.insert(leased(100, late))).toEqual(['key_retired']);
    await expect(retireKey(keys, 1, 0)).rejects.toThrow('200 records need key version 1');
    await json('keyring reseal');
    await retireKey(keys, 1, 0);
    expect(await detokenizeAll(service, tokens)).toEqual(values);
  });

  test('a value that was stored before is not acknowledged while the standby of its worker is away', async () => {
    const { nodes, service, tokenized } = await newVault(2);
    const values = numbered('repeated', 40);
    const tokens = await tokenized(values);
    const back = await Promise.all(cluster.workers.map(loseStandby));
    // Found by a look-up, and by an insert; in all shards, and in one.
    const asked = nodes.flatMap((node) =>
      [values, ['repeated 0']].map((some) => ask(node, 'tokenize', some, service.api_key)),
    );
    const answers = (await Promise.all(asked)).map(({ status, body }) => [status, body.message]);
    expect(answers).toEqual(Array(4).fill([500, 'database unavailable']));
    for (const resume of back) await resume();
    for (const node of nodes) expect(await tokenized(values, node)).toEqual(tokens);
  });

  test('the user of the service has few rights: it serves, but does not distribute', async () => {
    const { place, service, sql, noStart, expectDistributed } = await newVault(1, plainUrl());
    await service.stop();
    const { name, url } = await makeRole(place);
    await sql(
      `grant usage on schema standin to ${name}; grant insert on standin.records to ${name};
       grant select on all tables in schema standin to ${name}`,
    );
    const asUser = { ...place, env: { ...place.env, DATABASE_URL: url } };
    await joinCitus(cluster.serverUrl, place.env.DATABASE_URL!);
    const words = 'Run standin migrate as the owner of its tables';
    expect(await noStart({ DATABASE_URL: url })).toContain(words);

    const { api_key: apiKey } = await createClient(place);
    await expectDistributed();
    const node = await ownService(asUser);
    const tokens = (await call(node, 'tokenize', { a: 'Ann' }, apiKey)).body.data;
    expect((await call(node, 'detokenize', tokens, apiKey)).body.data).toEqual({ a: 'Ann' });
  });
});
