import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { forgetTokens } from '../../src/store/removal.ts';
import { JournalledWriters } from '../support/journal.ts';
import { expectThereAndBack } from '../support/pairs.ts';
import { PgBouncer, pgbouncerProgram } from '../support/pgbouncer.ts';
import { PostgresCluster, postgresBin, query } from '../support/postgres.ts';
import {
  call,
  newPlace,
  type Place,
  runCli,
  type Service,
  startService,
  until,
} from '../support/service.ts';
import { openTestPool, randomRecord, soon, sql } from '../support/vault.ts';

/** What PgBouncer itself sets, so that a session is as its client asked for. */
const SET_BY_PGBOUNCER = [
  'application_name',
  'client_encoding',
  'DateStyle',
  'standard_conforming_strings',
  'TimeZone',
];
/** A statement is tried again for so long; on a busy machine that can be too short. */
const PATIENCE_MS = 3_900;
const UNAVAILABLE = '500 {"error":"internal_error","message":"database unavailable"}';

describe.skipIf(postgresBin === undefined || pgbouncerProgram === undefined)(
  'F24: behind PgBouncer in transaction mode',
  () => {
    let cluster: PostgresCluster;
    const cleanups: (() => void | Promise<void>)[] = [];
    beforeAll(async () => {
      cluster = await PostgresCluster.start();
    });
    afterEach(async () => {
      for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
    });
    afterAll(() => {
      const log = readFileSync(cluster.logFile, 'utf8');
      cluster.stop();
      expect(log).not.toMatch(/prepared statement .* (does not exist|already exists)/);
    });

    async function bounced(
      settings: Record<string, string | number> = {},
      before = cluster,
    ): Promise<{ bouncer: PgBouncer; place: Place }> {
      const bouncer = await PgBouncer.start(before.port, settings);
      cleanups.push(() => bouncer.stop());
      const place = await newPlace('server', bouncer.url('postgres'));
      cleanups.push(place.remove);
      return { bouncer, place };
    }

    async function start(place: Place): Promise<Service> {
      const service = await startService(place);
      cleanups.push(() => service.stop());
      return service;
    }

    test('two nodes and the commands share one server connection, and leave nothing on it', async () => {
      const { place } = await bounced({ default_pool_size: 1, server_idle_timeout: 600 });
      const [one, other] = [await start(place), await start(place)];
      const values = Array.from({ length: 2_000 }, (_, i) => `value ${i}`);
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          call(i % 2 ? one : other, 'tokenize', { values }, one.api_key),
        ),
      );
      const tokens = answers[0]!.body.data.values;
      for (const answer of answers) expect(answer.body.data.values).toEqual(tokens);
      const restored = await call(other, 'detokenize', { tokens }, one.api_key);
      expect(restored.body.data.tokens).toEqual(values);
      const unknown = await call(one, 'detokenize', { a: 'nobody_tok' });
      expect(unknown.status).toBe(400);

      const made = await runCli(['client', 'create', '--name', 'late', '--json'], place);
      const { client_id: clientId, api_key: apiKey } = JSON.parse(made.stdout);
      expect((await call(other, 'tokenize', { a: 'b' }, apiKey)).status).toBe(200);
      expect((await runCli(['client', 'disable', clientId], place)).code).toBe(0);
      expect((await runCli(['doctor'], place)).code).toBe(0);

      const [sessions] = await sql(
        place,
        'select count(*)::integer as n from pg_stat_activity where datname = current_database()',
      );
      expect(sessions!.n).toBe(1);
      const left = await sql(
        place,
        `select name from pg_settings where source = 'session'
        union all select name from pg_prepared_statements where name <> ''
        union all select 'advisory lock' from pg_locks where locktype = 'advisory'`,
      );
      expect(SET_BY_PGBOUNCER).toEqual(expect.arrayContaining(left.map((row) => row.name)));
    });

    test('pairs are imported and exported over the one server connection of the service', async () => {
      const { place } = await bounced({ default_pool_size: 1 });
      await expectThereAndBack(place, await start(place));
    });

    test('three processes that migrate at once apply each file once', async () => {
      const { place } = await bounced();
      const ended = await Promise.all(
        Array.from({ length: 3 }, () => runCli(['migrate', '--json'], place)),
      );
      expect(ended.map(({ code, stderr }) => `${code}${stderr}`)).toEqual(['0', '0', '0']);
      const applied = ended.flatMap(({ stdout }) => JSON.parse(stdout).applied);
      const rows = await sql(place, 'select name from standin.migrations order by version');
      expect(applied.toSorted()).toEqual(rows.map((row) => row.name));
    });

    test('PgBouncer killed five times while writing: no acknowledged token is lost, and the services stay', async () => {
      const { bouncer, place } = await bounced();
      const services = [await start(place), await start(place)];
      const { api_key: apiKey } = services[0]!;
      let turn = 0;
      const writers = new JournalledWriters(place, () => services[turn++ % 2]!, apiKey);
      for (let i = 0; i < 5; i++) {
        await writers.progress(300);
        await bouncer.kill();
        await bouncer.startAgain();
      }
      await writers.progress(300);
      await writers.stop();
      for (const service of services) await writers.verify(service, apiKey);
      expect([...writers.failures].filter((failure) => failure !== UNAVAILABLE)).toEqual([]);
    });

    test('server connections that are replaced and reset all the time: no request fails that has time left', async () => {
      const { bouncer, place } = await bounced({
        server_reset_query_always: 1,
        server_lifetime: 1,
      });
      const service = await start(place);
      const writers = new JournalledWriters(place, () => service, service.api_key);
      const backends = async () => {
        const rows = await query(
          cluster.directUrl('postgres'),
          "select pid from pg_stat_activity where application_name = 'standin'",
        );
        return rows.map((row) => row.pid as number);
      };
      const seen = new Set<number>();
      while (seen.size < 20) {
        await bouncer.command('reconnect');
        await writers.progress(50);
        for (const pid of await backends()) seen.add(pid);
      }
      await writers.stop();
      await writers.verify(service, service.api_key);
      const failed = service
        .output()
        .split('\n')
        .filter((line) => line.includes('"status":500'));
      const slowestMs = Math.max(
        ...failed.map((line) => JSON.parse(line).duration_ms),
        failed.length > 0 ? 0 : PATIENCE_MS,
      );
      expect(slowestMs).toBeGreaterThanOrEqual(PATIENCE_MS);
    });

    test('one before each of two servers: also after a failover the one that leads to the primary is found', async () => {
      const primary = await PostgresCluster.start();
      cleanups.push(() => primary.stop());
      const { place, bouncer } = await bounced({}, primary);
      const standby = await primary.startStandby();
      cleanups.push(() => standby.stop());
      const other = await PgBouncer.start(standby.port);
      cleanups.push(() => other.stop());
      place.env.DATABASE_URL = place.env.DATABASE_URL!.replace(
        `:${bouncer.port}/`,
        `:${bouncer.port},127.0.0.1:${other.port}/`,
      );
      const service = await start(place);
      const { token } = (await call(service, 'tokenize', { token: 'Ann Lee' })).body.data;
      await primary.crash();
      expect((await call(service, 'tokenize', { a: 'new' })).status).toBe(500);
      standby.promote();
      await until(
        async () => (await call(service, 'tokenize', { a: 'new' })).status === 200,
        'the new primary',
      );
      expect((await call(service, 'detokenize', { token })).body.data.token).toBe('Ann Lee');
    });

    test('a standby in the place of the server: what it does not know is an outage, not unknown', async () => {
      const own = await PostgresCluster.start();
      cleanups.push(() => own.stop());
      const { place } = await bounced({}, own);
      const service = await start(place);
      expect((await call(service, 'detokenize', { a: 'unknown_tok' })).status).toBe(400);
      const pool = openTestPool(place, 1);
      cleanups.push(() => pool.end());
      const nobody = randomRecord().token_fingerprint;
      expect(await forgetTokens(pool, [nobody], soon())).toEqual(['unknown']);
      // The connections of the service, to PgBouncer, stay.
      own.demote();
      const isStandby = 'select pg_is_in_recovery() as yes';
      const seen = () => query(place.env.DATABASE_URL!, isStandby).catch(() => []);
      await until(async () => (await seen())[0]?.yes === true, 'PgBouncer on the standby');
      expect((await call(service, 'detokenize', { a: 'unknown_tok' })).status).toBe(500);
      expect((await call(service, 'tokenize', { a: 'Ann Lee' })).status).toBe(500);
      // The same for a forget whose connections were seen to lead to a primary.
      await expect(forgetTokens(pool, [nobody], soon())).rejects.toThrow('database unavailable');
      await expect(forgetTokens(pool, [nobody], soon(), true)).rejects.toThrow(
        'database unavailable',
      );
      own.promote();
      await until(
        async () => (await call(service, 'detokenize', { a: 'unknown_tok' })).status === 400,
        'the primary',
      );
      expect((await call(service, 'tokenize', { a: 'Ann Lee' })).status).toBe(200);
    });
  },
);
