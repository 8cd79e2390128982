import { expect, test } from 'vitest';
import { PrimaryBuckets, RemoteBuckets } from '../../src/service/limits/primary-buckets.ts';
import { MemoryRateLimiter } from '../../src/service/limits/rate-limit.ts';
import { budgetBucket, requestBucket, unknownTokens } from '../support/buckets.ts';

/** Buckets on a clock that the test turns. */
function bucketsAt(start_ms: number) {
  const clock = { now_ms: start_ms };
  const buckets = new PrimaryBuckets(new MemoryRateLimiter(() => clock.now_ms));
  const take = (count: number) =>
    buckets.answer([{ id: 1, bucket: requestBucket('a', 10), count }])[0];
  return { clock, buckets, take };
}

test('what is asked for at once is granted as far as the bucket goes', () => {
  const { clock, take } = bucketsAt(5_000);
  expect(take(4)).toEqual({ id: 1, granted: 4, left: 6, retry_after_s: 0 });
  expect(take(9)).toEqual({ id: 1, granted: 6, left: 0, retry_after_s: 1 });
  expect(take(1)).toEqual({ id: 1, granted: 0, left: 0, retry_after_s: 1 });
  clock.now_ms += 200;
  expect(take(9)).toEqual({ id: 1, granted: 2, left: 0, retry_after_s: 1 });
});

test('workers take from one bucket a client, whichever message comes first', () => {
  const { buckets } = bucketsAt(0);
  const calls = (count: number) =>
    ['a', 'b'].map((name, id) => ({ id, bucket: requestBucket(name, 10), count }));
  const granted = (count: number) => buckets.answer(calls(count)).map((one) => one.granted);
  expect(granted(7)).toEqual([7, 7]);
  expect(granted(7)).toEqual([3, 3]);
});

test('workers spend one budget of unknown tokens a client', () => {
  const { buckets } = bucketsAt(0);
  const spend = (id: number, count: number) => ({
    ...{ id, bucket: budgetBucket('a', 1), count: 1, outcome: unknownTokens(count) },
  });
  const answers = buckets.answer([spend(1, 58), spend(2, 1), spend(3, 1)]);
  expect(answers.map(({ granted }) => granted)).toEqual([1, 0, 0]);
});

test('what a worker asks for in one turn goes as one message, and each gets its own answer', async () => {
  const messages: unknown[] = [];
  const { buckets } = bucketsAt(0);
  const remote = new RemoteBuckets((calls) => {
    messages.push(calls);
    remote.put(buckets.answer(calls));
  });
  const answers = ['a', 'b', 'a'].map((name) => remote.take(requestBucket(name, 5), 3));
  const budget = remote.settle(budgetBucket('a', 1), 2, unknownTokens(59));
  expect((await Promise.all(answers)).map((one) => one.granted)).toEqual([3, 3, 2]);
  expect((await budget).granted).toBe(1);
  expect(messages).toHaveLength(1);
});
