import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Limits, openLimits } from '../../src/service/limits/limits.ts';
import { requestBucket } from '../support/buckets.ts';
import { RedisServer, redis_server } from '../support/redis.ts';
import { until } from '../support/service.ts';

// Retried: on a machine so busy that Redis does not answer within 100 ms, nodes rightly limit alone.
describe.skipIf(redis_server === undefined)('limits that nodes share', () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await RedisServer.start();
  });
  afterAll(() => redis?.stop());

  const nodes: Limits[] = [];
  afterEach(() => {
    for (const node of nodes.splice(0)) node.close();
  });

  async function startNode(changes: boolean[] = []): Promise<Limits> {
    const node = await openLimits({
      redis_url: redis.url,
      onChange: (is_shared) => changes.push(is_shared),
    });
    nodes.push(node);
    return node;
  }

  /** Asks without a pause, eight at a time, until stopped; counts what goes on. */
  function hammer(node: Limits, client_id: string, rate: number) {
    const state = { allowed: 0, refused: 0, is_over: false };
    const one = async () => {
      while (!state.is_over) {
        if ((await node.rate_limiter.take(requestBucket(client_id, rate))) === undefined)
          state.allowed++;
        else state.refused++;
        // A limiter of one process alone answers in the same turn: others must get theirs.
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    const done = Promise.all(Array.from({ length: 8 }, one));
    const stop = async () => {
      state.is_over = true;
      await done;
    };
    return { state, stop };
  }

  test('L08: two nodes together let 100 a second and one burst through', async () => {
    const pair = [await startNode(), await startNode()];
    const started_us = await redis.now_us();
    const hammers = pair.map((node) => hammer(node, 'L08', 100));
    const allowed = () => hammers.reduce((sum, { state }) => sum + state.allowed, 0);
    await until(() => allowed() >= 500, '500 requests');
    const counted = allowed();
    const passed_s = ((await redis.now_us()) - started_us) / 1e6;
    for (const { stop } of hammers) await stop();
    expect(counted).toBeLessThanOrEqual((100 * passed_s + 100) * 1.05);
    for (const { state } of hammers) {
      expect(state.allowed).toBeGreaterThan(0);
      expect(state.refused).toBeGreaterThan(state.allowed);
    }
  });

  test('are those of each node alone while Redis is away, and shared again when it is back', async () => {
    const changes: boolean[] = [];
    const pair = [await startNode(changes), await startNode()];
    const hammers = pair.map((node) => hammer(node, 'away', 1_000));
    await until(() => hammers.every(({ state }) => state.allowed > 100), 'both are at work');
    expect(pair.map((node) => node.isShared!())).toEqual([true, true]);
    await redis.crash();
    await until(() => pair.every((node) => !node.isShared!()), 'both are alone');
    const before = hammers.map(({ state }) => state.allowed);
    await until(
      () => hammers.every(({ state }, i) => state.allowed > before[i]! + 2_000),
      'each lets its own thousand a second through',
    );
    await redis.startAgain();
    await until(() => pair.every((node) => node.isShared!()), 'both share again');
    for (const { stop } of hammers) await stop();
    expect(changes).toEqual([false, true]);
  });
});

test('without a URL there is nothing that could be shared', async () => {
  const limits = await openLimits({ redis_url: undefined, onChange: () => {} });
  expect(limits.isShared).toBeUndefined();
  expect([
    limits.rate_limiter.take(requestBucket('a', 1)),
    limits.rate_limiter.take(requestBucket('a', 1)),
  ]).toEqual([undefined, 1]);
  limits.close();
});
