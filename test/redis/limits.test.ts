import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Buckets } from '../../src/limits/buckets.ts';
import { openBuckets } from '../../src/limits/shared-buckets.ts';
import { refusalOf, requestBucket } from '../support/buckets.ts';
import { RedisServer, redisServer } from '../support/redis.ts';
import { until } from '../support/service.ts';

describe.skipIf(redisServer === undefined)('limits that nodes share', () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await RedisServer.start();
  });
  afterAll(() => redis?.stop());

  const nodes: Buckets[] = [];
  afterEach(() => {
    for (const node of nodes.splice(0)) node.close();
  });

  async function startNode(changes: boolean[] = []): Promise<Buckets> {
    const node = await openBuckets(redis.url, (isShared) => changes.push(isShared));
    nodes.push(node);
    return node;
  }

  /** Asks without a pause, eight at a time, until stopped; counts what goes on. */
  function hammer(node: Buckets, clientId: string, rate: number) {
    const state = { allowed: 0, refused: 0, isOver: false };
    const one = async () => {
      while (!state.isOver) {
        const { granted } = await node.take(requestBucket(clientId, rate));
        if (granted === 1) state.allowed++;
        else state.refused++;
        // A limiter of one process alone answers in the same turn: others must get theirs.
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    const done = Promise.all(Array.from({ length: 8 }, one));
    const stop = async () => {
      state.isOver = true;
      await done;
    };
    return { state, stop };
  }

  /**
   * Counts what nodes let through while they share. On a machine so busy that Redis does not answer
   * within 100 ms they rightly limit alone for a while: what was counted then says nothing.
   */
  async function whileShared(
    all: readonly Buckets[],
    changes: readonly boolean[],
    attempt: (number: number) => Promise<() => void>,
  ): Promise<void> {
    for (let number = 0; ; number++) {
      await until(() => all.every((node) => node.isShared), 'shared limits');
      const before = changes.length;
      const check = await attempt(number);
      if (changes.length === before) return check();
    }
  }

  test('L08: two nodes together let 100 a second and one burst through', async () => {
    const changes: boolean[] = [];
    const pair = [await startNode(changes), await startNode(changes)];
    await whileShared(pair, changes, async (attempt) => {
      const startedUs = await redis.nowUs();
      const hammers = pair.map((node) => hammer(node, `L08 ${attempt}`, 100));
      const allowed = () => hammers.reduce((sum, { state }) => sum + state.allowed, 0);
      await until(() => allowed() >= 500, '500 requests');
      const counted = allowed();
      const passedS = ((await redis.nowUs()) - startedUs) / 1e6;
      for (const { stop } of hammers) await stop();
      return () => {
        expect(counted).toBeLessThanOrEqual((100 * passedS + 100) * 1.05);
        for (const { state } of hammers) {
          expect(state.allowed).toBeGreaterThan(0);
          expect(state.refused).toBeGreaterThan(state.allowed);
        }
      };
    });
  });

  test('are those of each node alone while Redis is away, and shared again when it is back', async () => {
    const changes: boolean[] = [];
    const pair = [await startNode(changes), await startNode()];
    const hammers = pair.map((node) => hammer(node, 'away', 1_000));
    await until(() => hammers.every(({ state }) => state.allowed > 100), 'both are at work');
    await until(() => pair.every((node) => node.isShared), 'both share');
    await redis.crash();
    await until(() => pair.every((node) => !node.isShared), 'both are alone');
    const before = hammers.map(({ state }) => state.allowed);
    await until(
      () => hammers.every(({ state }, i) => state.allowed > before[i]! + 2_000),
      'each lets its own thousand a second through',
    );
    await redis.startAgain();
    await until(() => pair.every((node) => node.isShared), 'both share again');
    for (const { stop } of hammers) await stop();
    // On a busy machine there may be more of them, in turns.
    expect(changes.length).toBeGreaterThanOrEqual(2);
    expect(changes).toEqual(changes.map((_, i) => i % 2 === 1));
  });
});

test('without a URL there is nothing that could be shared', async () => {
  const buckets = await openBuckets(undefined, () => {});
  expect(buckets.isShared).toBeUndefined();
  const take = async () => refusalOf(await buckets.take(requestBucket('a', 1)));
  expect([await take(), await take()]).toEqual([undefined, 1]);
  buckets.close();
});
