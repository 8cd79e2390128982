import { expect, test } from 'vitest';
import { PrimaryBuckets, RemoteBuckets } from '../../src/service/primary-buckets.ts';
import { MemoryRateLimiter } from '../../src/service/rate-limit.ts';

/** Buckets on a clock that the test turns. */
function bucketsAt(start_ms: number) {
  const clock = { now_ms: start_ms };
  const buckets = new PrimaryBuckets(new MemoryRateLimiter(() => clock.now_ms));
  const take = (requests: number, client_id = 'a', rate = 10) =>
    buckets.answer([{ id: 1, client_id, rate, requests }])[0];
  return { clock, buckets, take };
}

test('what is asked for at once is granted as far as the bucket goes', () => {
  const { clock, take } = bucketsAt(5_000);
  expect(take(4)).toEqual({ id: 1, granted: 4, retry_after_s: 0 });
  expect(take(9)).toEqual({ id: 1, granted: 6, retry_after_s: 1 });
  expect(take(1)).toEqual({ id: 1, granted: 0, retry_after_s: 1 });
  clock.now_ms += 200;
  expect(take(9)).toEqual({ id: 1, granted: 2, retry_after_s: 1 });
});

test('workers take from one bucket a client, whichever message comes first', () => {
  const { buckets } = bucketsAt(0);
  const calls = (requests: number) =>
    ['a', 'b'].map((client_id, id) => ({ id, client_id, rate: 10, requests }));
  const granted = (requests: number) => buckets.answer(calls(requests)).map((one) => one.granted);
  expect(granted(7)).toEqual([7, 7]);
  expect(granted(7)).toEqual([3, 3]);
});

test('what a worker asks for in one turn goes as one message, and each gets its own answer', async () => {
  const messages: unknown[] = [];
  const { buckets } = bucketsAt(0);
  const remote = new RemoteBuckets((calls) => {
    messages.push(calls);
    remote.put(buckets.answer(calls));
  });
  const answers = ['a', 'b', 'a'].map((client_id) => remote.take(client_id, 5, 3));
  expect((await Promise.all(answers)).map((one) => one.granted)).toEqual([3, 3, 2]);
  expect(messages).toHaveLength(1);
});
