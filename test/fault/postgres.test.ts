import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  ANSWER_BOUND_MS,
  backends,
  expectOnlyUnavailable,
  freeze,
  lasting,
  newCluster,
  newVault,
  newWriters,
  recovery,
  SLACK_MS,
  seconds,
  start,
  timeoutFor,
  times,
} from '../support/fault.ts';
import { type PostgresCluster, postgresBin, query } from '../support/postgres.ts';
import { childrenOf } from '../support/processes.ts';
import { Random } from '../support/random.ts';
import { call, until } from '../support/service.ts';

const KILLS = times(3, 10);
const FREEZE_S = seconds(7, 30);
const LOCK_S = seconds(6, 20);
const STATES = "select pid, state from pg_stat_activity where application_name = 'standin'";
const DATABASE_CONNECTIONS = 12;

/** Of 100 that a server has by default: others must find some free as well. */
const MOST_BACKENDS = 50;

/** Connections that a test holds itself, closed when it ends. */
async function connectTo(cluster: PostgresCluster): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: cluster.directUrl('postgres') });
  client.on('error', () => {});
  await client.connect();
  onTestFinished(() => client.end().catch(() => {}));
  return client;
}

describe.skipIf(postgresBin === undefined)('PostgreSQL', () => {
  test('F03: kill -9 of a backend, and the end of all idle ones: nothing is lost, and the process stays', async () => {
    const random = new Random();
    const cluster = await newCluster();
    const place = await newVault(cluster);
    const service = await start(place);
    const writers = newWriters(service, service.api_key, place);
    for (let i = 0; i < KILLS; i++) {
      await writers.progress(100);
      const all = await query(cluster.directUrl('postgres'), STATES);
      const old = childrenOf(cluster.postmasterPid);
      process.kill(random.pick(all).pid, 'SIGKILL');
      // PostgreSQL ends all others, and starts its helpers again.
      await until(
        () => childrenOf(cluster.postmasterPid).every((pid) => !old.includes(pid)),
        'the reset',
      );
      await recovery(service, service.api_key);
    }
    for (let i = 0; i < KILLS; i++) {
      await writers.progress(100);
      await query(
        cluster.directUrl('postgres'),
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'standin' and state = 'idle'",
      );
    }
    await writers.progress(100);
    await writers.stop();
    await writers.verify(service, service.api_key);
    await writers.verifyRows(place);
    expectOnlyUnavailable(writers);
    expect(writers.cuts).toBe(0);
    expect(service.output()).not.toContain('unexpected failure');
  });

  test(
    'F04: all of PostgreSQL stops and goes on: every request is answered in time, /health says so, and all connections come back',
    async () => {
      const cluster = await newCluster();
      const place = await newVault(cluster);
      const service = await start(place);
      const writers = newWriters(service, service.api_key, place);
      await writers.progress(200);
      const thaw = freeze(cluster);
      const askedMs = performance.now();
      expect((await fetch(`${service.url}/health`)).status).toBe(503);
      expect(performance.now() - askedMs).toBeLessThan(1_500 + SLACK_MS);
      await lasting(FREEZE_S);
      thaw();
      await recovery(service, service.api_key);
      await writers.progress(200);
      await writers.stop();
      expectOnlyUnavailable(writers);
      expect(writers.failures.size).toBe(1);
      await writers.verify(service, service.api_key);
      await writers.verifyRows(place);
      expect((await fetch(`${service.url}/health`)).status).toBe(200);
      // Those that were given up are gone, and a full pool works again.
      await until(
        async () => (await backends(cluster)) <= DATABASE_CONNECTIONS,
        'the end of the old backends',
      );
      const values = Array.from({ length: 5_000 }, (_, i) => `full ${i}`);
      const answers = await Promise.all(
        ['a', 'b', 'c', 'd'].map((name) =>
          call(service, 'tokenize', { [name]: values.map((value) => `${name} ${value}`) }),
        ),
      );
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
      expect(await backends(cluster)).toBeGreaterThan(2);
    },
    timeoutFor(FREEZE_S),
  );

  test(
    'F14: the table is locked: what waits is bounded in the service and in PostgreSQL, more is refused at once, and all is well after',
    async () => {
      const cluster = await newCluster();
      const place = await newVault(cluster);
      const service = await start(place);
      const writers = newWriters(service, service.api_key, place);
      await writers.progress(100);
      const holder = new pg.Client({ connectionString: place.env.DATABASE_URL });
      await holder.connect();
      onTestFinished(() => holder.end().catch(() => {}));
      await holder.query('begin');
      await holder.query('lock table standin.records in access exclusive mode');
      // 16 bodies of 10,000 values: the bound is 100,000 values under way.
      const startedMs = performance.now();
      const answers = await Promise.all(
        Array.from({ length: 16 }, async (_, n) => {
          const values = Array.from({ length: 10_000 }, (__, i) => `locked ${n} ${i}`);
          const { status, body } = await call(service, 'tokenize', { values });
          return { status, body, ms: performance.now() - startedMs };
        }),
      );
      const refused = answers.filter(({ status }) => status === 503);
      const waited = answers.filter(({ status }) => status === 500);
      expect(refused.length).toBeGreaterThanOrEqual(6);
      expect(refused.length + waited.length).toBe(16);
      expect(Math.max(...answers.map(({ ms }) => ms))).toBeLessThan(ANSWER_BOUND_MS + SLACK_MS);
      // Refused while the others still waited.
      const firstAnswerMs = Math.min(...waited.map(({ ms }) => ms));
      expect(Math.max(...refused.map(({ ms }) => ms))).toBeLessThan(firstAnswerMs);
      let mostBackends = 0;
      const overMs = startedMs + LOCK_S * 1_000;
      while (performance.now() < overMs) {
        mostBackends = Math.max(mostBackends, await backends(cluster));
        await lasting(0.1);
      }
      await holder.query('rollback');
      await recovery(service, service.api_key, 2_000);
      await writers.progress(100);
      await writers.stop();
      await writers.verify(service, service.api_key);
      await writers.verifyRows(place);
      expect(writers.slowestMs).toBeLessThan(ANSWER_BOUND_MS + SLACK_MS);
      // Statements that were given up may wait on in the server for the lock; its connections are few.
      console.log(`${mostBackends} backends at most`);
      expect(mostBackends).toBeLessThanOrEqual(MOST_BACKENDS);
    },
    timeoutFor(LOCK_S),
  );

  test('F15: others have all connections of the server: 500, and an answer soon after they are free', async () => {
    const cluster = await newCluster({ max_connections: '25' });
    const place = await newVault(cluster);
    const service = await start(place);
    const writers = newWriters(service, service.api_key, place);
    await writers.progress(100);
    const hogs: pg.Client[] = [];
    const grab = async () => {
      try {
        hogs.push(await connectTo(cluster));
        return true;
      } catch (error) {
        expect((error as { code?: string }).code).toBe('53300');
        return false;
      }
    };
    while (await grab());
    const [hog] = hogs;
    await until(async () => {
      await hog!.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'standin'",
      );
      await grab();
      return writers.failures.size > 0;
    }, 'a failed request');
    const { status, body } = await call(service, 'tokenize', { a: 'no connection' });
    expect([status, body]).toEqual([
      500,
      { error: 'internal_error', message: 'database unavailable' },
    ]);
    expect((await fetch(`${service.url}/health`)).status).toBe(503);
    for (const one of hogs) await one.end();
    await recovery(service, service.api_key);
    await writers.progress(100);
    await writers.stop();
    expectOnlyUnavailable(writers);
    await writers.verify(service, service.api_key);
    await writers.verifyRows(place);
  });

  test('F17: SIGTERM while PostgreSQL is stopped: the process ends by itself with 0', async () => {
    const cluster = await newCluster();
    const place = await newVault(cluster);
    const service = await start(place);
    const writers = newWriters(service, service.api_key, place);
    await writers.progress(100);
    const thaw = freeze(cluster);
    const askedMs = performance.now();
    service.kill('SIGTERM');
    expect(await service.exit).toBe(0);
    expect(performance.now() - askedMs).toBeLessThan(15_000 + SLACK_MS);
    thaw();
    await writers.stop();
    const again = await start(place);
    await writers.verify(again, service.api_key);
  });
});
