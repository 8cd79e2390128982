import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Client } from '../../src/client-settings.ts';
import { MemoryBuckets } from '../../src/limits/buckets.ts';
import { type Admission, ClientLimits } from '../../src/limits/client-limits.ts';
import { refusalOf, requestBucket } from '../support/buckets.ts';

const NO_DEFAULTS = {
  ...{ rate_limit: 0, detokenize_limit: 0, lookup_limit: 0, unknown_token_limit: 0 },
};
const CLIENT = {
  client_id: 'a',
  rate_limit: null,
  detokenize_limit: null,
  lookup_limit: null,
  unknown_token_limit: null,
} as unknown as Client;

/** A limiter on a clock that the test turns. */
function limiterAt(startMs = 0) {
  const clock = { nowMs: startMs };
  const limiter = new MemoryBuckets(() => clock.nowMs);
  const take = (rate: number, name = 'a') => refusalOf(limiter.take(requestBucket(name, rate)));
  return { clock, limiter, take };
}

function takeAll(take: () => number | undefined): number {
  let taken = 0;
  while (take() === undefined) taken++;
  return taken;
}

test.each([1, 3, 7, 60, 100, 1000, 999_999])('a full bucket holds %i requests, no more', (rate) => {
  const { take } = limiterAt(123_456.789);
  expect(takeAll(() => take(rate))).toBe(rate);
});

test.each([
  [0.001, 1],
  [0.5, 1],
  [1.5, 1],
  [2.9, 2],
])('of a rate of %d, a full bucket holds %i', (rate, burst) => {
  const { take } = limiterAt();
  expect(takeAll(() => take(rate))).toBe(burst);
});

test('one request comes back each 1/rate seconds', () => {
  const { clock, take } = limiterAt();
  takeAll(() => take(100));
  clock.nowMs = 9.99;
  expect(take(100)).toBe(1);
  clock.nowMs = 10;
  expect(take(100)).toBeUndefined();
  expect(take(100)).toBe(1);
});

test('an idle client does not save up more than a full bucket', () => {
  const { clock, take } = limiterAt();
  takeAll(() => take(10));
  clock.nowMs = 3_600_000;
  expect(takeAll(() => take(10))).toBe(10);
});

test('a refused request costs nothing', () => {
  const { clock, take } = limiterAt();
  takeAll(() => take(1));
  for (let i = 0; i < 1_000; i++) take(1);
  clock.nowMs = 1_000;
  expect(take(1)).toBeUndefined();
});

test('a client whose limits are 0 has none, and no bucket is asked', () => {
  const asked = () => expect.unreachable();
  const buckets = { take: asked, settle: asked, isShared: undefined, close() {} };
  const limits = new ClientLimits(buckets, NO_DEFAULTS, () => expect.unreachable());
  const free = { quotas: [], state: undefined, isRefused: false };
  for (const operation of ['tokenize', 'detokenize', 'lookup'] as const)
    expect(limits.admit(CLIENT, operation)).toEqual(free);
  expect(limits.reserve(CLIENT)).toBeUndefined();
  expect(limits.settle(CLIENT, { known: 0, unknown: 9 }, true)).toBeUndefined();
  // The client's own limit comes before the default.
  const limited = new ClientLimits(new MemoryBuckets(() => 0), NO_DEFAULTS, () => {});
  const own = { ...CLIENT, rate_limit: 1 };
  const refused = () => (limited.admit(own, 'tokenize') as Admission).isRefused;
  expect([refused(), refused()]).toEqual([false, true]);
});

test('refusals are told at once, then once a minute: how many there were since', () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const told: [string, number][] = [];
  const limits = new ClientLimits(new MemoryBuckets(() => 0), NO_DEFAULTS, (_, limit, refused) =>
    told.push([limit, refused]),
  );
  const client = { ...CLIENT, rate_limit: 1, lookup_limit: 1 };
  for (const operation of ['tokenize', 'lookup'] as const) limits.admit(client, operation);
  for (let minute = 0; minute < 3; minute++) {
    for (let i = 0; i < 4; i++) limits.admit(client, 'tokenize');
    vi.advanceTimersByTime(60_000);
  }
  limits.admit(client, 'lookup');
  expect(told).toEqual([
    ['requests', 1],
    ['requests', 4],
    ['requests', 4],
    ['lookup', 1],
  ]);
});

test('a bucket tells how many are left', () => {
  const { clock, limiter } = limiterAt();
  const take = () => limiter.take(requestBucket('a', 3));
  expect(take()).toEqual({ granted: 1, left: 2, retryAfterS: 0 });
  take();
  expect(take()).toEqual({ granted: 1, left: 0, retryAfterS: 1 });
  expect(take()).toEqual({ granted: 0, left: 0, retryAfterS: 1 });
  clock.nowMs = 700;
  expect(take()).toEqual({ granted: 1, left: 1, retryAfterS: 0 });
});

test('clients do not share a bucket', () => {
  const { take } = limiterAt();
  takeAll(() => take(5, 'a'));
  expect(takeAll(() => take(5, 'b'))).toBe(5);
});

describe('retry_after', () => {
  test.each([
    [100, 0, 1],
    [1, 0, 1],
    [1, 999, 1],
    [0.5, 0, 2],
    [0.5, 999, 2],
    [0.5, 1_000, 1],
    [0.5, 1_999, 1],
    [0.1, 0, 10],
    [0.001, 1, 1_000],
  ])('at a rate of %d, %i ms after the last request: %i', (rate, afterMs, expected) => {
    const { clock, take } = limiterAt();
    takeAll(() => take(rate));
    clock.nowMs = afterMs;
    expect(take(rate)).toBe(expected);
  });

  test('after it every request succeeds, and not a whole second before', () => {
    const rate = fc.oneof(
      fc.integer({ min: 1, max: 2_000 }),
      fc.constantFrom(0.001, 0.3, 0.5, 2.5),
    );
    const startMs = fc.double({ min: 0, max: 1e9, noNaN: true });
    const stepsMs = fc.array(fc.double({ min: 0, max: 900, noNaN: true }), { maxLength: 40 });
    fc.assert(
      fc.property(rate, startMs, stepsMs, (rate, startMs, stepsMs) => {
        const { clock, take } = limiterAt(startMs);
        for (const stepMs of [0, ...stepsMs]) {
          clock.nowMs += stepMs;
          takeAll(() => take(rate));
          const refusedAtMs = clock.nowMs;
          const retryAfter = take(rate)!;
          expect(Number.isInteger(retryAfter)).toBe(true);
          if (retryAfter > 1) {
            clock.nowMs = refusedAtMs + (retryAfter - 1) * 1_000;
            expect(take(rate)).toBeDefined();
          }
          clock.nowMs = refusedAtMs + retryAfter * 1_000;
          expect(take(rate)).toBeUndefined();
        }
      }),
      { numRuns: 50 },
    );
  });

  test('is not a second more for a clock whose sums round up', () => {
    const { take } = limiterAt(6974.507186452428);
    takeAll(() => take(1));
    expect(take(1)).toBe(1);
  });
});

test('no window of one second lets more through than rate and burst', () => {
  const rate = fc.oneof(fc.integer({ min: 1, max: 50 }), fc.constantFrom(0.5, 1.5, 2.7));
  const stepsMs = fc.array(fc.double({ min: 0, max: 40, noNaN: true }), { maxLength: 500 });
  fc.assert(
    fc.property(rate, stepsMs, (rate, stepsMs) => {
      const { clock, take } = limiterAt(1_000_000 / 3);
      const allowedMs: number[] = [];
      for (const stepMs of stepsMs) {
        clock.nowMs += stepMs;
        if (take(rate) === undefined) allowedMs.push(clock.nowMs);
      }
      const burst = Math.max(1, rate);
      allowedMs.forEach((fromMs, i) => {
        const inWindow = allowedMs.slice(i).filter((atMs) => atMs <= fromMs + 1_000).length;
        expect(inWindow).toBeLessThanOrEqual(rate + burst);
      });
    }),
  );
});

test('look-ups have a limit of their own by default, too', () => {
  const limits = new ClientLimits(
    new MemoryBuckets(() => 0),
    { ...NO_DEFAULTS, lookup_limit: 1 },
    () => {},
  );
  const refused = (operation: 'tokenize' | 'lookup') =>
    (limits.admit(CLIENT, operation) as Admission).isRefused;
  expect([refused('lookup'), refused('lookup'), refused('tokenize')]).toEqual([false, true, false]);
});

test('L07: 300 requests a second for a minute at a rate of 100 let 6,000 and one burst through', () => {
  const { clock, take } = limiterAt();
  let allowed = 0;
  for (let i = 0; i < 300 * 60; i++) {
    clock.nowMs = (i * 1_000) / 300;
    if (take(100) === undefined) allowed++;
  }
  expect(allowed).toBeGreaterThanOrEqual(6_099);
  expect(allowed).toBeLessThanOrEqual(6_100);
});

describe('a rate that is changed', () => {
  test('upwards is in force at once: the old wait is forgotten', () => {
    const { clock, take } = limiterAt();
    expect(take(0.001)).toBeUndefined();
    expect(take(0.001)).toBe(1_000);
    expect(take(100)).toBe(1);
    clock.nowMs = 10;
    expect(take(100)).toBeUndefined();
  });

  test('downwards is in force at once: the saved requests are gone', () => {
    const { clock, take } = limiterAt();
    takeAll(() => take(100));
    clock.nowMs = 1_000;
    expect(takeAll(() => take(2))).toBe(2);
  });
});

test('known tokens beside unknown ones in a refused request earn no guesses', () => {
  const limits = new ClientLimits(new MemoryBuckets(() => 0), NO_DEFAULTS, () => {});
  const client = { ...CLIENT, unknown_token_limit: 1 };
  for (const hasGaps of [false, true]) {
    if (limits.reserve(client) === undefined)
      limits.settle(client, { known: 600, unknown: 2_400 }, hasGaps);
    expect(limits.reserve(client)).toMatchObject({ isRefused: true });
  }
});
