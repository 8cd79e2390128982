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
  lanes: 1,
  maxBatchItems: 10,
  maxBatchBytes: 100,
  maxWaitingItems: 20,
  patienceMs: 60_000,
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
  return { batcher, batches, sizes, next };
}

function numbered(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${prefix}${i}`);
}

/** Two turns of the event loop: whatever an idle batcher would flush, it has. */
async function turns(): Promise<void> {
  for (let i = 0; i < 2; i++) await new Promise((resolve) => setImmediate(resolve));
}

describe('grouping', () => {
  test('what is submitted in one turn goes together, in order', async () => {
    const { batcher, next, sizes } = setUp();
    const results = [batcher.submit(['a', 'b']), batcher.submit(['c']), batcher.submit(['d'])];
    const batch = await next();
    expect(batch.items).toEqual(['a', 'b', 'c', 'd']);
    batch.answer();
    expect(await Promise.all(results)).toEqual([['<a>', '<b>'], ['<c>'], ['<d>']]);
    expect(sizes).toEqual([4]);
  });

  test('an idle batcher flushes one item at once', async () => {
    const { batcher, next } = setUp();
    const result = batcher.submit(['a']);
    (await next()).answer();
    expect(await result).toEqual(['<a>']);
  });

  test('what comes while a batch is in flight waits and shares the next', async () => {
    const { batcher, batches, next } = setUp();
    const first = batcher.submit(['a']);
    const inFlight = await next();
    const later = [batcher.submit(['b']), batcher.submit(['c', 'd'])];
    await turns();
    later.push(batcher.submit(['e']));
    await turns();
    expect(batches).toHaveLength(1);
    inFlight.answer();
    await first;
    const batch = await next();
    expect(batch.items).toEqual(['b', 'c', 'd', 'e']);
    batch.answer();
    expect(await Promise.all(later)).toEqual([['<b>'], ['<c>', '<d>'], ['<e>']]);
  });

  test('as many batches are in flight as there are lanes', async () => {
    const { batcher, batches, next } = setUp({ lanes: 2 });
    const results: Promise<readonly string[]>[] = [];
    for (const item of ['a', 'b', 'c', 'd']) {
      results.push(batcher.submit([item]));
      await turns();
    }
    expect(batches.map((batch) => batch.items)).toEqual([['a'], ['b']]);
    for (let i = 0; i < 3; i++) (await next()).answer();
    expect(await Promise.all(results)).toEqual([['<a>'], ['<b>'], ['<c>'], ['<d>']]);
    expect(batches[2]!.items).toEqual(['c', 'd']);
  });

  test('no items are answered without a batch', async () => {
    const { batcher, batches } = setUp();
    expect(await batcher.submit([])).toEqual([]);
    await turns();
    expect(batches).toHaveLength(0);
  });
});

describe('bounds', () => {
  test('a batch has at most max_batch_items, is filled up to them, and no call is split', async () => {
    const { batcher, next } = setUp();
    const results = [4, 6, 4, 4].map((n, i) => batcher.submit(numbered(`${i}.`, n)));
    for (const size of [10, 8]) {
      const batch = await next();
      expect(batch.items).toHaveLength(size);
      batch.answer();
    }
    expect((await Promise.all(results)).flat()).toHaveLength(18);
  });

  test('a call larger than a batch is a batch of its own', async () => {
    const { batcher, next } = setUp();
    const results = [
      batcher.submit(['a']),
      batcher.submit(numbered('b', 15)),
      batcher.submit(['c']),
    ];
    for (const size of [1, 15, 1]) {
      const batch = await next();
      expect(batch.items).toHaveLength(size);
      batch.answer();
    }
    await Promise.all(results);
  });

  test('more than max_waiting_items are refused with overloaded and a time to come back', async () => {
    const { batcher, next } = setUp();
    const first = batcher.submit(['in flight']);
    const inFlight = await next();
    const waiting = [12, 8].map((n) => batcher.submit(numbered(`${n}.`, n)));
    const refused = batcher.submit(['one more']);
    await expect(refused).rejects.toBeInstanceOf(CallerError);
    await expect(refused).rejects.toMatchObject({ code: 'overloaded', retryAfterS: 1 });
    inFlight.answer();
    for (let i = 0; i < 2; i++) (await next()).answer();
    expect((await Promise.all([first, ...waiting])).flat()).toHaveLength(21);
  });

  test('what was refused is not run; after the queue is empty items are taken again', async () => {
    const { batcher, batches, next } = setUp();
    const waiting = batcher.submit(numbered('w', 20));
    await expect(batcher.submit(['refused'])).rejects.toThrow();
    (await next()).answer();
    await waiting;
    const again = batcher.submit(numbered('v', 20));
    (await next()).answer();
    await again;
    expect(batches.flatMap((batch) => batch.items)).not.toContain('refused');
  });

  test('one call larger than the queue is taken when nothing waits', async () => {
    const { batcher, next } = setUp();
    const result = batcher.submit(numbered('a', 25));
    (await next()).answer();
    expect(await result).toHaveLength(25);
  });
});

describe('bytes', () => {
  test('a batch has no more than it may, in whole calls', async () => {
    const { batcher, next } = setUp();
    const results = [60, 40, 1, 99].map((bytes, i) => batcher.submit([`${i}`], bytes));
    expect((await next()).items).toEqual(['0', '1']);
    for (const result of results) result.catch(() => {});
  });

  test('one call of more than a batch may have goes alone', async () => {
    const { batcher, next } = setUp();
    const results = [batcher.submit(['a', 'b'], 500), batcher.submit(['c'], 1)];
    const first = await next();
    expect(first.items).toEqual(['a', 'b']);
    first.answer();
    (await next()).answer();
    expect(await Promise.all(results)).toEqual([['<a>', '<b>'], ['<c>']]);
  });
});

describe('failures', () => {
  test('an outage fails all calls of its batch, with its error, and no other', async () => {
    const { batcher, next } = setUp();
    const results = [batcher.submit(['a']), batcher.submit(['b'])];
    const batch = await next();
    const later = batcher.submit(['c']);
    const error = new Unavailable(new Error('no'));
    batch.fail(error);
    for (const result of results) await expect(result).rejects.toBe(error);
    (await next()).answer();
    expect(await later).toEqual(['<c>']);
  });

  test('a call that fails for what is in it fails alone: those beside it are answered', async () => {
    const { batcher, next, sizes } = setUp();
    const results = [batcher.submit(['a']), batcher.submit(['bad', 'b']), batcher.submit(['c'])];
    for (const result of results) result.catch(() => {});
    const error = new Error('bad');
    (await next()).fail(error);
    (await next()).answer();
    (await next()).fail(error);
    (await next()).answer();
    expect(await results[0]).toEqual(['<a>']);
    await expect(results[1]).rejects.toBe(error);
    expect(await results[2]).toEqual(['<c>']);
    expect(sizes).toEqual([4, 1, 2, 1]);
  });

  test('a run that throws at once fails its calls; the batcher goes on', async () => {
    let runs = 0;
    const { batcher } = setUp({
      run: (items) => {
        if (runs++ === 0) throw new Error('at once');
        return Promise.resolve(items);
      },
    });
    await expect(batcher.submit(['a'])).rejects.toThrow('at once');
    expect(await batcher.submit(['b'])).toEqual(['b']);
  });
});

describe('deadlines', () => {
  test('a batch has the deadline of its oldest item', async () => {
    const { batcher, next } = setUp({ patienceMs: 5_000 });
    const beforeMs = performance.now();
    const oldest = batcher.submit(['a']);
    const afterMs = performance.now();
    const result = batcher.submit(['b']);
    const batch = await next();
    expect(batch.deadlineMs).toBeGreaterThanOrEqual(beforeMs + 5_000);
    expect(batch.deadlineMs).toBeLessThanOrEqual(afterMs + 5_000);
    batch.answer();
    await Promise.all([oldest, result]);
  });

  test('a call may have less time than others: a batch has the deadline of the earliest', async () => {
    const { batcher, next } = setUp();
    const byMs = performance.now() + 10_000;
    const results = [batcher.submit(['a']), batcher.submit(['b'], 0, byMs)];
    const batch = await next();
    expect(batch.deadlineMs).toBe(byMs);
    batch.answer();
    await Promise.all(results);
  });

  test('a call that has no time left fails alone: those beside it are tried again', async () => {
    const { batcher, next } = setUp();
    const patient = [batcher.submit(['a']), batcher.submit(['c'])];
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
    const { batcher, batches, next } = setUp();
    const stuck = batcher.submit(['stuck']);
    const inFlight = await next();
    const patient = batcher.submit(['a']);
    const short = batcher.submit(['b'], 0, performance.now() + 30);
    await expect(short).rejects.toBeInstanceOf(Unavailable);
    const shorter = batcher.submit(['c'], 0, performance.now() + 30);
    await expect(shorter).rejects.toBeInstanceOf(Unavailable);
    inFlight.answer();
    (await next()).answer();
    await stuck;
    expect(await patient).toEqual(['<a>']);
    expect(batches.map(({ items }) => items)).toEqual([['stuck'], ['a']]);
  });

  test('an item that waits longer than patience_ms is Unavailable, and never run', async () => {
    const { batcher, batches, next } = setUp({ patienceMs: 30 });
    const stuck = batcher.submit(['stuck']);
    const inFlight = await next();
    const submittedMs = performance.now();
    const waiting = ['b', 'c'].map((item) => batcher.submit([item]));
    for (const result of waiting) await expect(result).rejects.toBeInstanceOf(Unavailable);
    expect(performance.now() - submittedMs).toBeGreaterThanOrEqual(30);
    inFlight.answer();
    expect(await stuck).toEqual(['<stuck>']);
    await turns();
    expect(batches).toHaveLength(1);
  });

  test('a process that stood still answers what waited: it reads first, and then gives time', async () => {
    const { batcher, next } = setUp({ patienceMs: 20 });
    const running = batcher.submit(['a']);
    const batch = await next();
    const waiting = batcher.submit(['b']);
    setImmediate(batch.answer);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 40);
    const late = await next();
    expect(late.deadlineMs).toBeGreaterThan(performance.now());
    late.answer();
    expect(await Promise.all([running, waiting])).toEqual([['<a>'], ['<b>']]);
  });

  test('expired items make room in the queue', async () => {
    const { batcher, next } = setUp({ patienceMs: 30 });
    const stuck = batcher.submit(['stuck']);
    const inFlight = await next();
    await expect(batcher.submit(numbered('w', 20))).rejects.toBeInstanceOf(Unavailable);
    const taken = batcher.submit(numbered('v', 20));
    inFlight.answer();
    (await next()).answer();
    await stuck;
    expect(await taken).toHaveLength(20);
  });
});

test('any calls on any lanes: each gets its own results, in order, within all bounds', async () => {
  const calls = fc.array(
    fc.record({ items: fc.nat({ max: 15 }), turnsBefore: fc.nat({ max: 2 }) }),
    { maxLength: 30 },
  );
  await fc.assert(
    fc.asyncProperty(
      calls,
      fc.integer({ min: 1, max: 4 }),
      fc.infiniteStream(fc.nat({ max: 4 })),
      async (calls, lanes, delays) => {
        let inFlight = 0;
        const ran: string[] = [];
        const batcher = new Batcher<string, string>({
          ...BOUNDS,
          lanes,
          maxWaitingItems: 1_000,
          onBatch: () => {},
          run: async (items) => {
            expect(++inFlight).toBeLessThanOrEqual(lanes);
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
