import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { forgetTokens } from '../../src/store/removal.ts';
import { JournalledWriters } from '../support/journal.ts';
import { ownCluster, ownPool, ownVault, vaultAt } from '../support/own.ts';
import { expectThereAndBack } from '../support/pairs.ts';
import { PgBouncer, pgbouncerProgram } from '../support/pgbouncer.ts';
import { PostgresCluster, postgresBin, query } from '../support/postgres.ts';
import { call, createClient, until } from '../support/service.ts';
import { randomRecord, soon } from '../support/vault.ts';

/** What PgBouncer itself sets, so that a session is as its client asked for. */
const SET_BY_PGBOUNCER =
  'application_name client_encoding DateStyle standard_conforming_strings TimeZone'.split(' ');
/** A statement is tried again for so long; on a busy machine that can be too short. */
const TIMEOUT_MS = 3_900;
const UNAVAILABLE = '500 {"error":"internal_error","message":"database unavailable"}';

describe.skipIf(postgresBin === undefined || pgbouncerProgram === undefined)(
  'F24: behind PgBouncer in transaction mode',
  () => {
    let cluster: PostgresCluster;
    beforeAll(async () => {
      cluster = await PostgresCluster.start();
      return () => {
        const log = readFileSync(cluster.logFile, 'utf8');
        cluster.stop();
        expect(log).not.toMatch(/prepared statement .* (does not exist|already exists)/);
      };
    });

    async function ownBouncer(port: number, settings: Record<string, string | number> = {}) {
      const bouncer = await PgBouncer.start(port, settings);
      onTestFinished(() => bouncer.stop());
      return bouncer;
    }

    async function bounced(
      nodes: number,
      settings: Record<string, string | number> = {},
      before = cluster,
    ) {
      const bouncer = await ownBouncer(before.port, settings);
      const serverUrl = bouncer.url('postgres');
      return { bouncer, ...(await ownVault({ kind: 'server', nodes, serverUrl })) };
    }

    test('two nodes and the commands share one server connection, and leave nothing on it', async () => {
      const settings = { default_pool_size: 1, server_idle_timeout: 600 };
      const { place, nodes, service, sql, json, tokenized, restored } = await bounced(2, settings);
      const values = Array.from({ length: 2_000 }, (_, i) => `value ${i}`);
      const asking = Array.from({ length: 20 }, (_, i) => tokenized(values, nodes[i % 2]));
      const [tokens, ...others] = await Promise.all(asking);
      for (const other of others) expect(other).toEqual(tokens);
      expect(await restored(tokens, nodes[1])).toEqual(values);
      expect((await call(service, 'detokenize', { a: 'nobody_tok' })).status).toBe(400);

      const { client_id: clientId, api_key: apiKey } = await createClient(place);
      expect((await call(nodes[1]!, 'tokenize', { a: 'b' }, apiKey)).status).toBe(200);
      await json(`client disable ${clientId}`);
      await json('doctor');

      const sessions = 'from pg_stat_activity where datname = current_database()';
      expect(await sql(`select count(*)::integer as n ${sessions}`)).toEqual([{ n: 1 }]);
      const left = await sql(
        `select name from pg_settings where source = 'session'
        union all select name from pg_prepared_statements where name <> ''
        union all select 'advisory lock' from pg_locks where locktype = 'advisory'`,
      );
      expect(SET_BY_PGBOUNCER).toEqual(expect.arrayContaining(left.map((row) => row.name)));
    });

    test('pairs are imported and exported over the one server connection of the service', async () => {
      const { place, service } = await bounced(1, { default_pool_size: 1 });
      await expectThereAndBack(place, service);
    });

    test('PgBouncer killed five times while writing: no acknowledged token is lost, and the services stay', async () => {
      const { bouncer, place, nodes, service } = await bounced(2);
      const { api_key: apiKey } = service;
      const writers = new JournalledWriters({ place, nodes, api_key: apiKey });
      for (let i = 0; i < 5; i++) {
        await writers.progress(300);
        await bouncer.kill();
        await bouncer.startAgain();
      }
      await writers.progress(300);
      await writers.stop();
      for (const node of nodes) await writers.verify(node, apiKey);
      expect([...writers.failures].filter((failure) => failure !== UNAVAILABLE)).toEqual([]);
    });

    test('server connections that are replaced and reset all the time: no request fails that has time left', async () => {
      const settings = { server_reset_query_always: 1, server_lifetime: 1 };
      const { bouncer, place, nodes, service } = await bounced(1, settings);
      const writers = new JournalledWriters({ place, nodes, api_key: service.api_key });
      const backends = "select pid from pg_stat_activity where application_name = 'standin'";
      const seen = new Set<number>();
      while (seen.size < 20) {
        await bouncer.command('reconnect');
        await writers.progress(50);
        for (const { pid } of await query(cluster.directUrl('postgres'), backends)) seen.add(pid);
      }
      await writers.stop();
      await writers.verify(service, service.api_key);
      const lines = service.output().split('\n');
      const failed = lines.filter((line) => line.includes('"status":500'));
      const durationsMs = failed.map((line) => JSON.parse(line).duration_ms);
      const slowestMs = failed.length > 0 ? Math.max(...durationsMs) : TIMEOUT_MS;
      expect(slowestMs).toBeGreaterThanOrEqual(TIMEOUT_MS);
    });

    test('one before each of two servers: also after a failover the one that leads to the primary is found', async () => {
      const primary = await ownCluster();
      const { place, bouncer } = await bounced(0, {}, primary);
      const standby = await primary.startStandby();
      onTestFinished(() => standby.stop());
      const other = await ownBouncer(standby.port);
      const hosts = `:${bouncer.port},127.0.0.1:${other.port}/`;
      place.env.DATABASE_URL = place.env.DATABASE_URL!.replace(`:${bouncer.port}/`, hosts);
      const { service, tokenized, restored } = await vaultAt(place);
      const tokens = await tokenized({ a: 'Ann Lee' });
      const status = async () => (await call(service, 'tokenize', { a: 'new' })).status;
      await primary.crash();
      expect(await status()).toBe(500);
      standby.promote();
      await until(async () => (await status()) === 200, 'the new primary');
      expect(await restored(tokens)).toEqual({ a: 'Ann Lee' });
    });

    test('a standby in the place of the server: what it does not know is an outage, not unknown', async () => {
      const own = await ownCluster();
      const { place, service } = await bounced(1, {}, own);
      const unknown = async () => (await call(service, 'detokenize', { a: 'unknown_tok' })).status;
      const tokenizes = async () => (await call(service, 'tokenize', { a: 'Ann Lee' })).status;
      expect(await unknown()).toBe(400);
      const pool = ownPool(place, 1);
      const nobody = [randomRecord().token_fingerprint];
      expect(await forgetTokens(pool, nobody, soon())).toEqual(['unknown']);
      // The connections of the service, to PgBouncer, stay.
      own.demote();
      const isStandby = 'select pg_is_in_recovery() as yes';
      const seen = () => query(place.env.DATABASE_URL!, isStandby).catch(() => []);
      await until(async () => (await seen())[0]?.yes === true, 'PgBouncer on the standby');
      expect([await unknown(), await tokenizes()]).toEqual([500, 500]);
      // The same for a forget whose connections were seen to lead to a primary.
      for (const isDryRun of [false, true])
        await expect(forgetTokens(pool, nobody, soon(), isDryRun)).rejects.toThrow(
          'database unavailable',
        );
      own.promote();
      await until(async () => (await unknown()) === 400, 'the primary');
      expect(await tokenizes()).toBe(200);
    });
  },
);
