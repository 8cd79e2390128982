import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PostgresCluster, postgresBin, query } from '../support/postgres.ts';
import {
  call,
  makePlace,
  type Place,
  type Service,
  startService,
  until,
} from '../support/service.ts';
import { Authority, hasOpenssl, serveTls } from '../support/tls.ts';

const isBounced = process.env.TEST_PGBOUNCER === '1';
const kinds = hasOpenssl && !isBounced ? ['in clear', 'over TLS'] : ['in clear'];

/** What the service has the server do at this moment, and is held up by a lock. */
const WAITING = `select count(*)::int as waiting from pg_stat_activity
  where datname = current_database() and application_name = 'standin' and wait_event_type = 'Lock'`;

describe.skipIf(postgresBin === undefined).each(kinds)(
  'a statement that ran out of time, %s',
  (kind) => {
    let folder: string;
    let cluster: PostgresCluster;
    let place: Place;
    let service: Service;
    beforeAll(async () => {
      folder = mkdtempSync(join(tmpdir(), 'standin-cancel-'));
      cluster = await PostgresCluster.start();
      place = await makePlace('server', cluster.url('postgres'));
      const env: Record<string, string> = {};
      if (kind === 'over TLS') {
        const authority = new Authority(folder, 'authority');
        serveTls(cluster, authority);
        const { pathname } = new URL(place.env.DATABASE_URL!);
        env.DATABASE_URL = `postgres://postgres@localhost:${cluster.port}${pathname}?sslmode=verify-full&sslrootcert=${authority.ca}`;
      }
      service = await startService(place, env);
    });
    afterAll(async () => {
      await service.stop();
      cluster.stop();
      place.remove();
      rmSync(folder, { recursive: true, force: true });
    });
    const direct = () => {
      const url = new URL(cluster.directUrl('postgres'));
      url.pathname = new URL(place.env.DATABASE_URL!).pathname;
      return url.href;
    };
    const waiting = async () => (await query(direct(), WAITING))[0]!.waiting as number;
    const values = (mark: string) => Array.from({ length: 10_000 }, (_, i) => `${mark} ${i}`);

    test('is stopped on the server; every request is answered; then all works again', async () => {
      const locker = new pg.Client({ connectionString: direct() });
      await locker.connect();
      await locker.query('begin; lock table standin.records in access exclusive mode');
      // Far more pieces than are under way at once.
      const calls = ['a', 'b', 'c', 'd'].map((mark) =>
        call(service, 'tokenize', { list: values(mark) }),
      );
      await until(async () => (await waiting()) > 0, 'a statement that waits');
      let answered = 0;
      for (const one of calls) void one.then(() => answered++);
      await until(() => answered === calls.length, 'all answers', 12_000);
      for (const { status, body } of await Promise.all(calls))
        expect([status, body.message]).toEqual([500, 'database unavailable']);
      await until(async () => (await waiting()) === 0, 'no statement that waits', 10_000);
      expect(
        await query(
          direct(),
          "select 1 from pg_locks where mode = 'AccessExclusiveLock' and granted and relation = 'standin.records'::regclass",
        ),
      ).toHaveLength(1);
      await locker.query('rollback');
      await locker.end();
      await until(
        async () => (await call(service, 'tokenize', { a: 'Ann Lee' })).status === 200,
        'a token',
      );
    });
  },
);
