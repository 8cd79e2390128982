import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  type Bucket,
  type Grant,
  MemoryBuckets,
  NO_OUTCOME,
  type Outcome,
} from '../../src/limits/buckets.ts';
import { SharedBuckets } from '../../src/limits/shared-buckets.ts';
import {
  budgetBucket,
  refusalOf,
  request,
  requestBucket,
  unknownTokens,
} from '../support/buckets.ts';
import { until } from '../support/service.ts';

interface Call {
  readonly bucket: Bucket;
  readonly count: number;
  /** Of a budget. */
  readonly outcome: Outcome | undefined;
  answer(granted: number, retryAfterS?: number): void;
  fail(): void;
}

const opened: SharedBuckets[] = [];
afterEach(() => {
  for (const buckets of opened.splice(0)) buckets.close();
});

type Ask = (bucket: Bucket, count: number, outcome?: Outcome) => Promise<Grant>;

function open(ask: Ask, states: boolean[] = []): SharedBuckets {
  const remote = { charge: ask, failure: undefined, close() {} };
  const buckets = new SharedBuckets(remote, (isShared, failure) => {
    states.push(isShared);
    expect(failure).toBe(isShared ? undefined : 'no answer in time');
  });
  opened.push(buckets);
  return buckets;
}

/**
 * Buckets that the test answers for. Probes, which are calls of no requests, are apart, and
 * answered by themselves unless the test wants to.
 */
function setUp({ answersProbes = true } = {}) {
  const calls: Call[] = [];
  const probes: Call[] = [];
  const states: boolean[] = [];
  const ask: Ask = (bucket, count, outcome) =>
    new Promise((resolve, reject) => {
      const answer = (granted: number, retryAfterS = 1) =>
        resolve({ granted, left: 0, retryAfterS });
      const call = { bucket, count, outcome, answer, fail: () => reject(new Error('away')) };
      const isProbe = count === 0 && (outcome ?? NO_OUTCOME) === NO_OUTCOME;
      (isProbe ? probes : calls).push(call);
      if (isProbe && answersProbes) answer(0);
    });
  /** Resolves to the call of that number, from 0, once it was made. */
  const call = async (number: number, among = calls): Promise<Call> => {
    await until(() => among.length > number, `call ${number}`);
    return among[number]!;
  };
  return { buckets: open(ask, states), calls, probes, states, call };
}

/** How each of so many requests is refused; undefined: it goes on. */
function takes(buckets: SharedBuckets, count: number, rate = 100, name = 'a') {
  const take = async () =>
    refusalOf(await buckets.charge(requestBucket(name, rate), 1, NO_OUTCOME));
  return Promise.all(Array.from({ length: count }, take));
}

async function turns(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve));
}

describe('batching', () => {
  test('what comes while a call is under way shares the next one', async () => {
    const { buckets, calls, call } = setUp();
    const first = takes(buckets, 2);
    await call(0);
    const later: Promise<(number | undefined)[]>[] = [];
    for (let i = 0; i < 3; i++) {
      later.push(takes(buckets, 2));
      await turns();
    }
    expect(calls).toHaveLength(1);
    calls[0]!.answer(2);
    expect(await first).toEqual([undefined, undefined]);
    const next = await call(1);
    expect(next.count).toBe(6);
    const after = takes(buckets, 1);
    await turns();
    expect(calls).toHaveLength(2);
    next.answer(3, 2);
    expect((await Promise.all(later)).flat()).toEqual([undefined, undefined, undefined, 2, 2, 2]);
    (await call(2)).answer(1);
    expect(await after).toEqual([undefined]);
    const apart = [takes(buckets, 1)];
    await undefined;
    apart.push(takes(buckets, 1));
    (await call(3)).answer(1);
    expect((await Promise.all(apart)).flat()).toEqual([undefined, 1]);
  });

  test('clients do not wait for each other', async () => {
    const { buckets, call } = setUp();
    const stuck = takes(buckets, 1, 100, 'a');
    const results = takes(buckets, 2, 5, 'b');
    const { bucket, answer } = await call(1);
    expect(bucket).toEqual(requestBucket('b', 5));
    answer(2);
    expect(await results).toEqual([undefined, undefined]);
    (await call(0)).answer(1);
    await stuck;
  });

  test('a rate that was changed meanwhile counts for the whole batch', async () => {
    const { buckets, call } = setUp();
    const results = Promise.all([takes(buckets, 1, 100), takes(buckets, 1, 5)]);
    const { bucket, answer } = await call(0);
    expect(bucket.rate).toBe(5);
    answer(2);
    await results;
  });
});

describe('a budget of unknown tokens', () => {
  const bucket = budgetBucket('a:unknown', 1);

  test('is asked once for what is over and what is to begin; the first ones go on', async () => {
    const { buckets, call } = setUp();
    const results = Promise.all([
      buckets.charge(bucket, 2, request(1, 0)),
      buckets.charge(bucket, 1, NO_OUTCOME),
      buckets.charge(bucket, 3, request(3, 2)),
    ]);
    const asked = await call(0);
    const outcome = { ended: 2, known: 4, unknown: 2, guessed: 3 };
    expect(asked).toMatchObject({ bucket, count: 6, outcome });
    asked.answer(4, 7);
    expect((await results).map(({ granted }) => granted)).toEqual([2, 1, 1]);
    const later = Promise.all([
      buckets.charge(bucket, 0, unknownTokens(9)),
      buckets.charge(bucket, 1, NO_OUTCOME),
    ]);
    const next = await call(1);
    expect(next).toMatchObject({ count: 1, outcome: unknownTokens(9) });
    next.answer(0, 2);
    expect((await later).map(({ retryAfterS }) => retryAfterS)).toEqual([2, 2]);
  });

  test('is counted here while the buckets are away, and asked for until they answer', async () => {
    const { buckets, probes, call } = setUp({ answersProbes: false });
    (await call(0, probes)).answer(0);
    const spent = buckets.charge(bucket, 1, unknownTokens(60));
    (await call(0)).fail();
    const refused = { granted: 0, left: 0, retryAfterS: 1 };
    expect(await spent).toEqual(refused);
    expect(buckets.charge(bucket, 1, NO_OUTCOME)).toEqual(refused);
    const other = buckets.charge(budgetBucket('b:unknown', 1), 1, NO_OUTCOME);
    expect(other).toEqual({ granted: 1, left: 59, retryAfterS: 0 });
    expect(await call(1, probes)).toMatchObject({ bucket, count: 0 });
  });
});

describe('buckets that are away', () => {
  test('fail no request: each is counted here, those that waited and those that come', async () => {
    const { buckets, calls, states, call } = setUp({ answersProbes: false });
    const first = takes(buckets, 2, 3);
    await call(0);
    const waiting = takes(buckets, 2, 3);
    calls[0]!.fail();
    expect([await first, await waiting]).toEqual([
      [undefined, undefined],
      [undefined, 1],
    ]);
    expect(buckets.charge(requestBucket('a', 3), 1, NO_OUTCOME)).toMatchObject({
      granted: 0,
      retryAfterS: 1,
    });
    // As those of one process.
    const alone = new MemoryBuckets(() => 0);
    // Of a bucket that refills slowly: only one of the two has a clock.
    const other = budgetBucket('b:unknown', 1);
    for (let i = 0; i < 60; i++) {
      const { granted, retryAfterS } = alone.charge(other, 1);
      expect(buckets.charge(other, 1, NO_OUTCOME)).toMatchObject({ granted, retryAfterS });
    }
    expect(calls).toHaveLength(1);
    expect(states).toEqual([false]);
  });

  test('are asked again, for the client that failed, and used again when they answer', async () => {
    const { buckets, calls, probes, states, call } = setUp({ answersProbes: false });
    (await call(0, probes)).answer(0);
    const broken = takes(buckets, 1, 7);
    (await call(0)).fail();
    await broken;
    const { bucket, fail } = await call(1, probes);
    expect(bucket).toEqual(requestBucket('a', 7));
    fail();
    (await call(2, probes)).answer(0);
    await until(() => states.length === 2, 'the limits are shared again');
    expect(states).toEqual([false, true]);
    const results = takes(buckets, 1, 7);
    (await call(1)).answer(0, 4);
    expect(await results).toEqual([4]);
    expect(calls).toHaveLength(2);
    expect((await call(3, probes)).bucket.name).not.toBe('a');
  });
});

test('a process that was held up itself takes the grant that came meanwhile', async () => {
  const states: boolean[] = [];
  const { port1, port2 } = new MessageChannel();
  let hasProbed = false;
  const holdUp = () => {
    const untilMs = performance.now() + 250;
    while (performance.now() < untilMs);
  };
  const take: Ask = (_, count) =>
    new Promise((resolve) => {
      port1.once('message', () => {
        resolve({ granted: count, left: 0, retryAfterS: 1 });
        hasProbed = true;
      });
      port2.postMessage('');
      if (count > 0) queueMicrotask(holdUp);
    });
  const buckets = open(take, states);
  await until(() => hasProbed, 'the answer to the first probe');
  expect(await takes(buckets, 2, 1)).toEqual([undefined, undefined]);
  expect(states).toEqual([]);
  port1.close();
});

test('a call has 100 ms; a probe comes each second, one at a time, until the buckets are closed', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const told: unknown[] = [];
  const charge = vi.fn((..._: unknown[]) => new Promise<Grant>(() => {}));
  const remote = { charge, failure: 'ECONNREFUSED', close: () => told.push('closed') };
  const start = () => new SharedBuckets(remote, (...state) => told.push(...state));
  const buckets = start();
  const seen: string[] = [];
  // The second probe is over when the third would begin, but this process was held up.
  for (const passedMs of [99, 1, 899, 1, 1_000, 1_000]) {
    if (seen.length === 5) charge.mockResolvedValueOnce({ granted: 0, left: 0, retryAfterS: 0 });
    vi.advanceTimersByTime(passedMs);
    await turns();
    seen.push(`${charge.mock.calls.length} ${told.length} ${vi.getTimerCount()}`);
  }
  expect(seen).toEqual(['1 0 2', '1 2 1', '1 2 1', '2 2 2', '2 2 1', '3 4 1']);
  expect(charge.mock.calls[0]).toEqual([{ name: 'probe', rate: 1, burstS: 1, isBudget: false }, 0]);
  for (const one of [buckets, start()]) one.close();
  vi.advanceTimersByTime(100);
  await turns();
  expect(told).toEqual([false, 'ECONNREFUSED', true, undefined, 'closed', 'closed']);
  expect(vi.getTimerCount()).toBe(0);
});
