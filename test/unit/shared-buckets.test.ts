import { afterEach, describe, expect, test } from 'vitest';
import {
  type Bucket,
  type Grant,
  MemoryBuckets,
  NO_OUTCOME,
  type Outcome,
} from '../../src/limits/buckets.ts';
import { type RemoteBuckets, SharedBuckets } from '../../src/limits/shared-buckets.ts';
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

const limiters: SharedBuckets[] = [];
afterEach(() => {
  for (const limiter of limiters.splice(0)) limiter.close();
});

type Ask = (bucket: Bucket, count: number, outcome?: Outcome) => Promise<Grant>;

function remoteOf(ask: Ask): RemoteBuckets {
  return { take: ask, settle: ask, failure: undefined, close() {} };
}

/**
 * A limiter on buckets that the test answers for. Probes, which are calls of no requests, are apart,
 * and answered by themselves unless the test wants to.
 */
function setUp({ answersProbes = true } = {}) {
  const calls: Call[] = [];
  const probes: Call[] = [];
  const states: boolean[] = [];
  const ask = (bucket: Bucket, count: number, outcome?: Outcome) =>
    new Promise<Grant>((resolve, reject) => {
      const answer = (granted: number, retryAfterS = 1) =>
        resolve({ granted, left: 0, retryAfterS });
      const call = { bucket, count, outcome, answer, fail: () => reject(new Error('away')) };
      const isProbe = count === 0 && (outcome ?? NO_OUTCOME) === NO_OUTCOME;
      (isProbe ? probes : calls).push(call);
      if (isProbe && answersProbes) answer(0);
    });
  const limiter = new SharedBuckets(remoteOf(ask), (isShared) => states.push(isShared));
  limiters.push(limiter);
  /** Resolves to the call of that number, from 0, once it was made. */
  const call = async (number: number, among = calls): Promise<Call> => {
    await until(() => among.length > number, `call ${number}`);
    return among[number]!;
  };
  return { limiter, calls, probes, states, call };
}

function takes(limiter: SharedBuckets, count: number, rate = 100, name = 'a') {
  const bucket = requestBucket(name, rate);
  return Promise.all(
    Array.from({ length: count }, async () => refusalOf(await limiter.take(bucket))),
  );
}

async function turns(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve));
}

describe('batching', () => {
  test('what is asked for in one turn is one call, and the first ones go on', async () => {
    const { limiter, calls, call } = setUp();
    const results = takes(limiter, 5);
    const { bucket, count, answer } = await call(0);
    expect({ bucket, count }).toEqual({ bucket: requestBucket('a', 100), count: 5 });
    answer(3, 7);
    expect(await results).toEqual([undefined, undefined, undefined, 7, 7]);
    expect(calls).toHaveLength(1);
  });

  test('what comes while a call is under way shares the next one', async () => {
    const { limiter, calls, call } = setUp();
    const first = takes(limiter, 2);
    await call(0);
    const later: Promise<(number | undefined)[]>[] = [];
    for (let i = 0; i < 3; i++) {
      later.push(takes(limiter, 2));
      await turns();
    }
    expect(calls).toHaveLength(1);
    calls[0]!.answer(2);
    expect(await first).toEqual([undefined, undefined]);
    const next = await call(1);
    expect(next.count).toBe(6);
    const after = takes(limiter, 1);
    await turns();
    expect(calls).toHaveLength(2);
    next.answer(3, 2);
    expect((await Promise.all(later)).flat()).toEqual([undefined, undefined, undefined, 2, 2, 2]);
    (await call(2)).answer(1);
    expect(await after).toEqual([undefined]);
  });

  test('clients do not wait for each other', async () => {
    const { limiter, call } = setUp();
    const stuck = takes(limiter, 1, 100, 'a');
    const results = takes(limiter, 2, 5, 'b');
    const { bucket, answer } = await call(1);
    expect(bucket).toEqual(requestBucket('b', 5));
    answer(2);
    expect(await results).toEqual([undefined, undefined]);
    (await call(0)).answer(1);
    await stuck;
  });

  test('a rate that was changed meanwhile counts for the whole batch', async () => {
    const { limiter, call } = setUp();
    const results = Promise.all([
      limiter.take(requestBucket('a', 100)),
      limiter.take(requestBucket('a', 5)),
    ]);
    const { bucket, answer } = await call(0);
    expect(bucket.rate).toBe(5);
    answer(2);
    await results;
  });
});

describe('a budget of unknown tokens', () => {
  const bucket = budgetBucket('a:unknown', 1);

  test('is asked once for what is over and what is to begin; the first ones go on', async () => {
    const { limiter, call } = setUp();
    const results = Promise.all([
      limiter.settle(bucket, 2, request(1, 0)),
      limiter.settle(bucket, 1, NO_OUTCOME),
      limiter.settle(bucket, 3, request(3, 2)),
    ]);
    const { bucket: asked, count, outcome, answer } = await call(0);
    expect({ asked, count }).toEqual({ asked: bucket, count: 6 });
    expect(outcome).toEqual({ ended: 2, known: 4, unknown: 2, guessed: 3 });
    answer(4, 7);
    expect((await results).map(({ granted }) => granted)).toEqual([2, 1, 1]);
    const later = Promise.all([
      limiter.settle(bucket, 0, unknownTokens(9)),
      limiter.settle(bucket, 1, NO_OUTCOME),
    ]);
    const next = await call(1);
    expect([next.count, next.outcome]).toEqual([1, unknownTokens(9)]);
    next.answer(0, 2);
    expect((await later).map(({ retryAfterS }) => retryAfterS)).toEqual([2, 2]);
  });

  test('is counted here while the buckets are away', async () => {
    const { limiter, call } = setUp({ answersProbes: false });
    const spent = limiter.settle(bucket, 1, unknownTokens(60));
    (await call(0)).fail();
    expect(await spent).toEqual({ granted: 0, left: 0, retryAfterS: 1 });
    expect(limiter.settle(bucket, 1, NO_OUTCOME)).toEqual({
      granted: 0,
      left: 0,
      retryAfterS: 1,
    });
    const other = budgetBucket('b:unknown', 1);
    expect(limiter.settle(other, 1, NO_OUTCOME)).toEqual({
      granted: 1,
      left: 59,
      retryAfterS: 0,
    });
  });

  test('is looked at as a budget when it has failed, until it answers', async () => {
    const { limiter, probes, call } = setUp({ answersProbes: false });
    (await call(0, probes)).answer(0);
    const spent = limiter.settle(bucket, 1, unknownTokens(1));
    (await call(0)).fail();
    await spent;
    const { bucket: asked, outcome } = await call(1, probes);
    expect([asked, outcome]).toEqual([bucket, NO_OUTCOME]);
  });
});

describe('buckets that are away', () => {
  test('fail no request: each is counted here, those that waited and those that come', async () => {
    const { limiter, calls, states, call } = setUp({ answersProbes: false });
    const first = takes(limiter, 2, 3);
    await call(0);
    const waiting = takes(limiter, 2, 3);
    calls[0]!.fail();
    expect(await first).toEqual([undefined, undefined]);
    expect(await waiting).toEqual([undefined, 1]);
    expect(limiter.take(requestBucket('a', 3))).toMatchObject({ granted: 0, retryAfterS: 1 });
    expect(calls).toHaveLength(1);
    expect(states).toEqual([false]);
  });

  test('are limits as those of one process', async () => {
    const { limiter, call } = setUp({ answersProbes: false });
    const broken = takes(limiter, 1, 50, 'other');
    (await call(0)).fail();
    await broken;
    const alone = new MemoryBuckets(() => 0);
    for (let i = 0; i < 50; i++)
      expect(limiter.take(requestBucket('a', 50))).toEqual(alone.take(requestBucket('a', 50)));
    expect(await takes(limiter, 2, 0.1, 'b')).toEqual([undefined, 10]);
  });

  test('that do not answer are not waited for', async () => {
    const { limiter, states, call } = setUp({ answersProbes: false });
    const results = takes(limiter, 2, 1);
    const late = await call(0);
    expect(await results).toEqual([undefined, 1]);
    expect(states).toEqual([false]);
    late.answer(0, 9);
    expect(limiter.take(requestBucket('b', 1))).toMatchObject({ granted: 1 });
    expect(states).toEqual([false]);
  });

  test('that throw at once are as those that reject', async () => {
    const states: boolean[] = [];
    const take = () => {
      throw new Error('away');
    };
    const limiter = new SharedBuckets(remoteOf(take), (isShared) => states.push(isShared));
    limiters.push(limiter);
    expect(await takes(limiter, 2, 1)).toEqual([undefined, 1]);
    expect(states).toEqual([false]);
  });

  test('are asked again, for the client that failed, and used again when they answer', async () => {
    const { limiter, calls, probes, states, call } = setUp({ answersProbes: false });
    (await call(0, probes)).answer(0);
    const broken = takes(limiter, 1, 7);
    (await call(0)).fail();
    await broken;
    const { bucket, fail } = await call(1, probes);
    expect(bucket).toEqual(requestBucket('a', 7));
    fail();
    (await call(2, probes)).answer(0);
    await until(() => states.length === 2, 'the limits are shared again');
    expect(states).toEqual([false, true]);
    const results = takes(limiter, 1, 7);
    (await call(1)).answer(0, 4);
    expect(await results).toEqual([4]);
    expect(calls).toHaveLength(2);
    expect((await call(3, probes)).bucket.name).not.toBe('a');
  });

  test('are known to be so without any request', async () => {
    const { states, probes, call } = setUp({ answersProbes: false });
    (await call(0, probes)).fail();
    await until(() => states.length === 1, 'the first state');
    expect(states).toEqual([false]);
  });
});

function holdUp(ms: number): void {
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs);
}

test('a process that was held up itself takes the answer that came meanwhile', async () => {
  const states: boolean[] = [];
  const { port1, port2 } = new MessageChannel();
  let hasProbed = false;
  const take = (_: Bucket, requests: number) =>
    new Promise<Grant>((resolve) => {
      port1.once('message', () => {
        resolve({ granted: requests, left: 0, retryAfterS: 1 });
        hasProbed = true;
      });
      port2.postMessage('');
      if (requests > 0) queueMicrotask(() => holdUp(250));
    });
  const limiter = new SharedBuckets(remoteOf(take), (isShared) => states.push(isShared));
  limiters.push(limiter);
  await until(() => hasProbed, 'the answer to the first probe');
  expect(await takes(limiter, 2, 1)).toEqual([undefined, undefined]);
  expect(states).toEqual([]);
  port1.close();
});
