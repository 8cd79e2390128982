import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Batcher, type BatcherOptions } from '../../src/batcher.ts';
import { CallerError, Unavailable } from '../../src/errors.ts';

interface Batch {
  readonly items: readonly string[];
  readonly deadlineMs: number;
  answer(): void;
  fail(error: unknown): void;
}

const BOUNDS = {
  ...{ slots: 1, maxBatchItems: 10, maxBatchBytes: 100 },
  ...{ maxWaitingItems: 20, timeoutMs: 60_000 },
};

/** A batcher whose batches the test answers: each item by itself in brackets. */
function setUp(options: Partial<BatcherOptions<string, string>> = {}) {
  const batches: Batch[] = [];
  const sizes: number[] = [];
  const waiting: ((batch: Batch) => void)[] = [];
  let taken = 0;
  const batcher = new Batcher<string, string>({
    ...BOUNDS,
    onBatch: (items) => sizes.push(items),
    run: (items, deadlineMs) =>
      new Promise((resolve, reject) => {
        const answer = () => resolve(items.map((item) => `<${item}>`));
        batches.push({ items, deadlineMs, answer, fail: reject });
        if (waiting.length > 0) waiting.shift()!(batches[taken++]!);
      }),
    ...options,
  });
  /** The next batch that is run. */
  const next = (): Promise<Batch> =>
    taken < batches.length
      ? Promise.resolve(batches[taken++]!)
      : new Promise((resolve) => waiting.push(resolve));
  /** Submits single items, each in a call of its own. */
  const submit = (...items: string[]) => items.map((item) => batcher.submit([item]));
  /** Answers so many batches. */
  const answer = async (count: number) => {
    for (let i = 0; i < count; i++) (await next()).answer();
  };
  /** A batch that is in flight, so that what comes now waits. */
  const busy = async () => {
    const [stuck] = submit('stuck');
    const batch = await next();
    return async () => {
      batch.answer();
      expect(await stuck).toEqual(['<stuck>']);
    };
  };
  return { batcher, batches, sizes, next, submit, answer, busy };
}

function numbered(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${prefix}${i}`);
}

/** Two turns of the event loop: whatever an idle batcher would flush, it has. */
async function turns(): Promise<void> {
  for (let i = 0; i < 2; i++) await new Promise((resolve) => setImmediate(resolve));
}

const numbersIn = (text: string) => (text.match(/\d+/g) ?? []).map(Number);

/** Calls of so many items, or bytes, in one turn, and the calls in each batch. */
test.each([
  ['go together, in order', '2 1 1', '', '2 1 1'],
  ['fill a batch up to its items, and none is split', '4 6 4 4', '', '4 6 | 4 4'],
  ['of more than a batch are a batch of their own', '1 15 1', '', '1 | 15 | 1'],
  ['of more than the queue are taken when nothing waits', '25', '', '25'],
  ['fill a batch up to its bytes', '1 1 1 1', '60 40 1 99', '1 1 | 1 1'],
  ['of more than the bytes of a batch go alone', '2 1', '500 1', '2 | 1'],
])('calls of one turn %s', async (_, items, bytes, inBatches) => {
  const { batcher, next, sizes } = setUp();
  const calls = numbersIn(items).map((count, i) => numbered(`${i}.`, count));
  const results = calls.map((call, i) => batcher.submit(call, numbersIn(bytes)[i]));
  const batches = inBatches.split('|').map(numbersIn);
  let taken = 0;
  for (const batch of batches) {
    const { items, answer } = await next();
    expect(items).toEqual(calls.slice(taken, taken + batch.length).flat());
    taken += batch.length;
    answer();
  }
  const expected = calls.map((call) => call.map((item) => `<${item}>`));
  expect(await Promise.all(results)).toEqual(expected);
  expect(sizes).toEqual(batches.map((batch) => batch.reduce((sum, count) => sum + count)));
});

test('what comes while a batch is in flight waits and shares the next', async () => {
  const { batcher, batches, next, submit, busy } = setUp();
  const free = await busy();
  const later = [...submit('b'), batcher.submit(['c', 'd'])];
  await turns();
  later.push(...submit('e'));
  await turns();
  expect(batches).toHaveLength(1);
  await free();
  const batch = await next();
  expect(batch.items).toEqual(['b', 'c', 'd', 'e']);
  batch.answer();
  expect(await Promise.all(later)).toEqual([['<b>'], ['<c>', '<d>'], ['<e>']]);
});

test('as many batches are in flight as there are slots', async () => {
  const { batcher, batches, answer } = setUp({ slots: 2 });
  const results: Promise<readonly string[]>[] = [];
  for (const item of ['a', 'b', 'c', 'd']) {
    results.push(batcher.submit([item]));
    await turns();
  }
  expect(batches.map((batch) => batch.items)).toEqual([['a'], ['b']]);
  await answer(3);
  expect(await Promise.all(results)).toEqual([['<a>'], ['<b>'], ['<c>'], ['<d>']]);
  expect(batches[2]!.items).toEqual(['c', 'd']);
});

test('more than max_waiting_items are refused with a time to come back, and never run; then others are taken', async () => {
  const { batcher, batches, answer, submit, busy } = setUp();
  const free = await busy();
  const [one] = submit('one');
  await expect(batcher.submit(Array(20).fill('refused'))).rejects.toBeInstanceOf(CallerError);
  const waiting = [one!, ...[11, 8].map((n) => batcher.submit(numbered(`${n}.`, n)))];
  const refused = batcher.submit(['refused']);
  await expect(refused).rejects.toBeInstanceOf(CallerError);
  await expect(refused).rejects.toMatchObject({ code: 'overloaded', retryAfterS: 1 });
  await free();
  await answer(3);
  expect((await Promise.all(waiting)).flat()).toHaveLength(20);
  const again = batcher.submit(numbered('v', 20));
  await answer(1);
  await again;
  expect(batches.flatMap((batch) => batch.items)).not.toContain('refused');
});

describe('failures', () => {
  test('an outage fails all calls of its batch, with its error, and no other', async () => {
    const { next, submit, answer } = setUp();
    const results = submit('a', 'b');
    const batch = await next();
    const [later] = submit('c');
    const error = new Unavailable(new Error('no'));
    batch.fail(error);
    for (const result of results) await expect(result).rejects.toBe(error);
    await answer(1);
    expect(await later).toEqual(['<c>']);
  });

  test('a call that fails for what is in it fails alone: those beside it are answered', async () => {
    const { batcher, batches, next, sizes, submit, answer } = setUp();
    const results = [...submit('a'), batcher.submit(['bad', 'b']), ...submit('c')];
    const error = new Error('bad');
    const refused = expect(results[1]).rejects.toBe(error);
    (await next()).fail(error);
    await turns();
    expect(batches).toHaveLength(2);
    await answer(1);
    (await next()).fail(error);
    await answer(1);
    await refused;
    expect(await results[0]).toEqual(['<a>']);
    expect(await results[2]).toEqual(['<c>']);
    expect(sizes).toEqual([4, 1, 2, 1]);
  });

  test('a run that throws at once fails its calls; the batcher goes on', async () => {
    let runs = 0;
    const run = (items: readonly string[]) => {
      if (runs++ === 0) throw new Error('at once');
      return Promise.resolve(items);
    };
    const { batcher } = setUp({ run });
    await expect(batcher.submit(['a'])).rejects.toThrow('at once');
    expect(await batcher.submit(['b'])).toEqual(['b']);
  });
});

describe('deadlines', () => {
  test('a call may have less time than others: a batch has the deadline of the earliest', async () => {
    const { batcher, next, submit } = setUp();
    const byMs = performance.now() + 10_000;
    const results = [...submit('a'), batcher.submit(['b'], 0, byMs)];
    const batch = await next();
    expect(batch.deadlineMs).toBe(byMs);
    batch.answer();
    await Promise.all(results);
  });

  test('a call that has no time left fails alone: those beside it are tried again', async () => {
    const { batcher, next, submit } = setUp();
    const patient = submit('a', 'c');
    const late = batcher.submit(['b'], 0, performance.now());
    const batch = await next();
    batch.fail(new Unavailable(new Error('no answer in time')));
    await expect(late).rejects.toBeInstanceOf(Unavailable);
    const rest = await next();
    expect(rest.items).toEqual(['a', 'c']);
    expect(rest.deadlineMs).toBeGreaterThan(batch.deadlineMs);
    rest.answer();
    expect(await Promise.all(patient)).toEqual([['<a>'], ['<c>']]);
  });

  test('a call that has less time than those before it does not wait longer', async () => {
    const { batcher, batches, submit, answer, busy } = setUp();
    const free = await busy();
    const [patient] = submit('a');
    for (const item of ['b', 'c']) {
      const short = batcher.submit([item], 0, performance.now() + 30);
      await expect(short).rejects.toBeInstanceOf(Unavailable);
    }
    await free();
    await answer(1);
    expect(await patient).toEqual(['<a>']);
    expect(batches.map(({ items }) => items)).toEqual([['stuck'], ['a']]);
  });

  test('an item that waits longer than patience_ms is Unavailable, is never run, and makes room in the queue', async () => {
    const { batcher, batches, answer, busy } = setUp({ timeoutMs: 30 });
    const free = await busy();
    const submittedMs = performance.now();
    const waiting = ['b', 'c'].map((name) => batcher.submit(numbered(name, 10)));
    for (const result of waiting) await expect(result).rejects.toBeInstanceOf(Unavailable);
    expect(performance.now() - submittedMs).toBeGreaterThanOrEqual(30);
    const taken = batcher.submit(numbered('v', 20));
    await free();
    await answer(1);
    expect(await taken).toHaveLength(20);
    expect(batches).toHaveLength(2);
  });

  test('a process that stood still answers what waited: it reads first, and then gives time', async () => {
    const { next, submit } = setUp({ timeoutMs: 20 });
    const running = submit('a');
    const batch = await next();
    const waiting = submit('b');
    setImmediate(batch.answer);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 40);
    const late = await next();
    expect(late.deadlineMs).toBeGreaterThan(performance.now());
    late.answer();
    expect(await Promise.all([...running, ...waiting])).toEqual([['<a>'], ['<b>']]);
  });
});

test('any calls on any slots: each gets its own results, in order, within all bounds', async () => {
  const calls = fc.array(
    fc.record({ items: fc.nat({ max: 15 }), turnsBefore: fc.nat({ max: 2 }) }),
    { maxLength: 30 },
  );
  await fc.assert(
    fc.asyncProperty(
      calls,
      fc.integer({ min: 1, max: 4 }),
      fc.infiniteStream(fc.nat({ max: 4 })),
      async (calls, slots, delays) => {
        let inFlight = 0;
        const ran: string[] = [];
        const batcher = new Batcher<string, string>({
          ...BOUNDS,
          slots,
          maxWaitingItems: 1_000,
          onBatch: () => {},
          run: async (items) => {
            expect(++inFlight).toBeLessThanOrEqual(slots);
            const callers = new Set(items.map((item) => item.split('.')[0]));
            if (callers.size > 1) expect(items.length).toBeLessThanOrEqual(BOUNDS.maxBatchItems);
            ran.push(...items);
            for (let left = delays.next().value!; left > 0; left--) await turns();
            inFlight--;
            return items.map((item) => `<${item}>`);
          },
        });
        const results: Promise<readonly string[]>[] = [];
        const submitted: string[][] = [];
        for (const [i, call] of calls.entries()) {
          for (let left = call.turnsBefore; left > 0; left--) await turns();
          submitted.push(numbered(`${i}.`, call.items));
          results.push(batcher.submit(submitted[i]!));
        }
        const answered = await Promise.all(results);
        expect(answered).toEqual(submitted.map((items) => items.map((item) => `<${item}>`)));
        expect(ran).toEqual(submitted.flat());
      },
    ),
  );
});
