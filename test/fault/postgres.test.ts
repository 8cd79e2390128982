import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  ANSWER_BOUND_MS,
  backends,
  DATABASE_CONNECTIONS,
  expectOnlyUnavailable,
  freeze,
  healthOf,
  lasting,
  loaded,
  newScene,
  recovery,
  SLACK_MS,
  seconds,
  start,
  times,
} from '../support/fault.ts';
import { held, ownCluster } from '../support/own.ts';
import { postgresBin } from '../support/postgres.ts';
import { childrenOf } from '../support/processes.ts';
import { Random } from '../support/random.ts';
import { call, until } from '../support/service.ts';

const KILLS = times(3, 10);
const FREEZE_S = seconds(7, 30);
const LOCK_S = seconds(6, 20);
/** Of 100 that a server has by default: others must find some free as well. */
const MOST_BACKENDS = 50;

const TERMINATE =
  "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'standin'";

describe.skipIf(postgresBin === undefined)('PostgreSQL', () => {
  test('F03: kill -9 of a backend, and the end of all idle ones: nothing is lost, and the process stays', async () => {
    const random = new Random();
    const { cluster, service, writers } = await loaded(newScene(), 0);
    for (let i = 0; i < KILLS; i++) {
      await writers.progress(100);
      const all = await backends(cluster);
      const old = childrenOf(cluster.postmasterPid);
      process.kill(random.pick(all), 'SIGKILL');
      // PostgreSQL ends all others, and starts its helpers again.
      await until(
        () => childrenOf(cluster.postmasterPid).every((pid) => !old.includes(pid)),
        'the reset',
      );
      await recovery(service);
    }
    for (let i = 0; i < KILLS; i++) {
      await writers.progress(100);
      await cluster.administer(`${TERMINATE} and state = 'idle'`);
    }
    await writers.finish(100);
    expectOnlyUnavailable(writers);
    expect(writers.cuts).toBe(0);
    expect(service.output()).not.toContain('unexpected failure');
  });

  test('F04: all of PostgreSQL stops and goes on: every request is answered in time, /health says so, and all connections come back', async () => {
    const { cluster, service, tokenized, writers } = await loaded(newScene(), 200);
    const thaw = freeze(cluster);
    const askedMs = performance.now();
    expect(await healthOf(service)).toBe(503);
    expect(performance.now() - askedMs).toBeLessThan(1_500 + SLACK_MS);
    await lasting(FREEZE_S);
    thaw();
    await recovery(service);
    await writers.finish(200);
    expectOnlyUnavailable(writers);
    expect(writers.failures.size).toBe(1);
    expect(await healthOf(service)).toBe(200);
    // Those that were given up are gone, and a full pool works again.
    const isSmall = async () => (await backends(cluster)).length <= DATABASE_CONNECTIONS;
    await until(isSmall, 'the end of the old backends');
    const values = Array.from({ length: 5_000 }, (_, i) => `full ${i}`);
    const full = (name: string) => tokenized(values.map((value) => `${name} ${value}`));
    await Promise.all(['a', 'b', 'c', 'd'].map(full));
    expect((await backends(cluster)).length).toBeGreaterThan(2);
  });

  test('F14: the table is locked: what waits is bounded in the service and in PostgreSQL, more is refused at once, and all is well after', async () => {
    const { cluster, place, service, writers } = await loaded(newScene(), 100);
    const unlock = await held(place, 'lock table standin.records in access exclusive mode');
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
      mostBackends = Math.max(mostBackends, (await backends(cluster)).length);
      await lasting(0.1);
    }
    await unlock();
    await recovery(service, 2_000);
    await writers.finish(100);
    expect(writers.slowestMs).toBeLessThan(ANSWER_BOUND_MS + SLACK_MS);
    // Statements that were given up may wait on in the server for the lock; its connections are few.
    console.log(`${mostBackends} backends at most`);
    expect(mostBackends).toBeLessThanOrEqual(MOST_BACKENDS);
  });

  test('F15: others have all connections of the server: 500, and an answer soon after they are free', async () => {
    const cluster = await ownCluster({ max_connections: '25' });
    const { service, writers } = await loaded(newScene({ cluster }), 100);
    const hogs: pg.Client[] = [];
    onTestFinished(async () => void (await Promise.allSettled(hogs.map((hog) => hog.end()))));
    const grab = async () => {
      const client = new pg.Client({ connectionString: cluster.directUrl('postgres') });
      client.on('error', () => {});
      try {
        await client.connect();
      } catch (error) {
        expect((error as { code?: string }).code).toBe('53300');
        return false;
      }
      return hogs.push(client) > 0;
    };
    while (await grab());
    const [hog] = hogs;
    await until(async () => {
      await hog!.query(TERMINATE);
      await grab();
      return writers.failures.size > 0;
    }, 'a failed request');
    const { status, body } = await call(service, 'tokenize', { a: 'no connection' });
    expect([status, body.message]).toEqual([500, 'database unavailable']);
    expect(await healthOf(service)).toBe(503);
    for (const one of hogs) await one.end();
    await recovery(service);
    await writers.finish(100);
    expectOnlyUnavailable(writers);
  });

  test('F17: SIGTERM while PostgreSQL is stopped: the process ends by itself with 0', async () => {
    const { cluster, place, service, writers } = await loaded(newScene(), 100);
    const thaw = freeze(cluster);
    const askedMs = performance.now();
    service.kill('SIGTERM');
    expect(await service.exit).toBe(0);
    expect(performance.now() - askedMs).toBeLessThan(15_000 + SLACK_MS);
    thaw();
    await writers.stop();
    await writers.verify(await start(place));
  });
});
