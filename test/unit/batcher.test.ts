import { describe, expect, test } from 'vitest';
import { CallerError } from '../../src/errors.ts';
import { Batcher } from '../../src/store/batcher.ts';
import { Unavailable } from '../../src/store/failure.ts';

/** A batcher whose batches end when the test says so. */
function heldBatcher(
  bounds: Partial<{ max_batch_items: number; max_waiting_items: number; patience_ms: number }> = {},
) {
  const batches: { items: readonly number[]; end: () => void; fail: (error: Error) => void }[] = [];
  const batcher = new Batcher<number, number>({
    lanes: 1,
    max_batch_items: 100,
    max_waiting_items: 100,
    patience_ms: 60_000,
    onBatch: () => {},
    run: (items) =>
      new Promise((resolve, reject) => {
        batches.push({ items, end: () => resolve(items.map((item) => item * 2)), fail: reject });
      }),
    ...bounds,
  });
  return { batcher, batches };
}

/** Until what was submitted has had its turn. */
const turns = async () => {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve));
};

describe('natural batching', () => {
  test('calls of one turn share a batch; each gets its own results in order', async () => {
    const { batcher, batches } = heldBatcher();
    const calls = [batcher.submit([1, 2]), batcher.submit([3]), batcher.submit([])];
    await turns();
    expect(batches.map((batch) => batch.items)).toEqual([[1, 2, 3]]);
    batches[0]!.end();
    expect(await Promise.all(calls)).toEqual([[2, 4], [6], []]);
  });
  test('what comes while a batch is in flight shares the next', async () => {
    const { batcher, batches } = heldBatcher();
    const first = batcher.submit([1]);
    await turns();
    const rest = [batcher.submit([2]), batcher.submit([3])];
    await turns();
    expect(batches).toHaveLength(1);
    batches[0]!.end();
    await first;
    await turns();
    expect(batches[1]!.items).toEqual([2, 3]);
    batches[1]!.end();
    expect(await Promise.all(rest)).toEqual([[4], [6]]);
  });
  test('a batch has at most so many items, and a call is never split', async () => {
    const { batcher, batches } = heldBatcher({ max_batch_items: 3 });
    for (const call of [[1, 2], [3, 4], [5], [6, 7, 8, 9]]) void batcher.submit(call);
    for (let i = 0; i < 3; i++) {
      await turns();
      batches[i]!.end();
    }
    await turns();
    expect(batches.map((batch) => batch.items)).toEqual([
      [1, 2],
      [3, 4, 5],
      [6, 7, 8, 9],
    ]);
  });
});

describe('bounds', () => {
  test('what does not fit into the queue is refused as overloaded, and the rest is not hurt', async () => {
    const { batcher, batches } = heldBatcher({ max_waiting_items: 4 });
    const waiting = batcher.submit([1, 2, 3]);
    await expect(batcher.submit([4, 5])).rejects.toEqual(new CallerError('overloaded', '', 1));
    await turns();
    batches[0]!.end();
    expect(await waiting).toEqual([2, 4, 6]);
  });
  test('a failure reaches every call of its batch, and only those', async () => {
    const { batcher, batches } = heldBatcher();
    const failed = [batcher.submit([1]), batcher.submit([2])];
    await turns();
    const next = batcher.submit([3]);
    const failure = new Unavailable(new Error('gone'));
    batches[0]!.fail(failure);
    expect((await Promise.allSettled(failed)).map((one) => one.status)).toEqual([
      'rejected',
      'rejected',
    ]);
    await turns();
    batches[1]!.end();
    expect(await next).toEqual([6]);
  });
  test('a call that waits for too long is unavailable', async () => {
    const { batcher } = heldBatcher({ patience_ms: 20 });
    void batcher.submit([1]);
    await turns();
    await expect(batcher.submit([2])).rejects.toThrow('database unavailable');
  });
});
