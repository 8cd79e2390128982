import { describe, expect, test } from 'vitest';
import {
  ANSWER_BOUND_MS,
  backends,
  DATABASE_CONNECTIONS,
  expectOnlyUnavailable,
  healthOf,
  isLinux,
  isShed,
  lasting,
  loaded,
  newScene,
  recovery,
  resetMidRequest,
  SLACK_MS,
  seconds,
  socketsOf,
  times,
} from '../support/fault.ts';
import { postgresBin } from '../support/postgres.ts';
import { Random } from '../support/random.ts';
import { call, until } from '../support/service.ts';

const SILENCE_S = seconds(8, 60);
const DROPS = times(100, 1_000);
/** Each longer than a request waits: the service tries again by itself for so long. */
const LONG_DROPS = times(1, 3);
const DELAYED_TOKENS = times(3_000, 50_000);
const RESETS = times(1_000, 5_000);
/** After this a statement is given up, and its connection with it. */
const TIMEOUT_MS = 4_000;

describe.skipIf(postgresBin === undefined || !isLinux)('the network to PostgreSQL', () => {
  test('F05: is a black hole, for new connections too: every request is answered in time, and no socket is left', async () => {
    const { proxy, service, writers } = await loaded(newScene({ isProxied: true }), 200);
    const sockets = socketsOf(service.pid);
    proxy.silence();
    await lasting(SILENCE_S);
    expect(await healthOf(service)).toBe(503);
    proxy.heal();
    await recovery(service);
    await writers.finish(200);
    expectOnlyUnavailable(writers);
    expect(writers.failures.size).toBe(1);
    await until(() => proxy.connections <= DATABASE_CONNECTIONS, 'the end of old connections');
    // Some of the pool may not have been open before.
    await until(
      () => socketsOf(service.pid) <= sockets + DATABASE_CONNECTIONS,
      'the end of other sockets',
    );
  });

  test('F06: loses the reply to a commit and resets: the value has one row, and every answer the same token', async () => {
    const { proxy, sql, service, restored } = await newScene({ isProxied: true });
    for (let i = 0; i < DROPS; i++) {
      proxy.dropsLeft = 1;
      const first = await call(service, 'tokenize', { a: `dropped ${i}` });
      // Inserts are idempotent, and the service has time left: it tries again by itself.
      expect(first.status).toBe(200);
      const again = await call(service, 'tokenize', { a: `dropped ${i}` });
      expect(again.body.data).toEqual(first.body.data);
      expect(await restored(first.body.data)).toEqual({ a: `dropped ${i}` });
    }
    expect(proxy.dropped).toBe(DROPS);
    for (let i = 0; i < LONG_DROPS; i++) {
      proxy.dropsLeft = Infinity;
      const { status, body } = await call(service, 'tokenize', { a: `lost ${i}` });
      proxy.dropsLeft = 0;
      expect([status, body.message]).toEqual([500, 'database unavailable']);
      const again = await call(service, 'tokenize', { a: `lost ${i}` });
      expect(await restored(again.body.data)).toEqual({ a: `lost ${i}` });
    }
    expect(await sql('select 1 from standin.records')).toHaveLength(DROPS + LONG_DROPS);
  });

  test('F07: delays replies beyond the time-out of statements: no answer carries a value that was not asked for, and late connections are not used again', async () => {
    const random = new Random();
    const proxied = newScene({ isProxied: true });
    const { proxy, service, writers } = await loaded(proxied, 1_000, Infinity);
    proxy.lateAfterMs = TIMEOUT_MS + SLACK_MS;
    // Most a little, so that statements overtake each other; some up to three time-outs.
    proxy.delayMs = () =>
      random.below(200) === 0 ? random.below(3 * TIMEOUT_MS) : random.below(10);
    const goal = writers.restored + DELAYED_TOKENS;
    await until(
      () => (writers.restored >= goal && proxy.late > 0) || writers.wrong.length > 0,
      'enough delayed answers',
      3_000 * (DELAYED_TOKENS / 50),
    );
    proxy.delayMs = () => 0;
    await recovery(service);
    await writers.finish();
    expect(proxy.lateReceived).toBe(0);
    expectOnlyUnavailable(writers);
    await until(() => proxy.connections <= DATABASE_CONNECTIONS, 'the end of old connections');
  });

  test('F08: callers reset their connections in the middle of requests: others get their own answers, and nothing is held', async () => {
    const random = new Random();
    const proxied = newScene({ isProxied: true });
    const { cluster, service, writers } = await loaded(proxied, 500, Infinity);
    const sockets = socketsOf(service.pid);
    for (let done = 0; done < RESETS; done += 100) {
      await Promise.all(
        Array.from({ length: 100 }, (_, i) =>
          resetMidRequest(service, done + i, random.below(1_000) / 1_000),
        ),
      );
    }
    await writers.finish(500);
    // A busy machine may send a request away, in words.
    expect([...writers.failures].filter((failure) => !isShed(failure))).toEqual([]);
    expect(writers.cuts).toBe(0);
    const isIdle = async () => (await backends(cluster, "state = 'active'")).length === 0;
    await until(isIdle, 'idle backends', ANSWER_BOUND_MS + SLACK_MS);
    expect(await backends(cluster, "state like 'idle in transaction%'")).toEqual([]);
    await until(() => socketsOf(service.pid) <= sockets + 5, 'the end of their sockets');
  });
});
