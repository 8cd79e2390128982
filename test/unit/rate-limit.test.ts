import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MemoryRateLimiter } from '../../src/service/limits/rate-limit.ts';
import { refusalOf, requestBucket } from '../support/buckets.ts';

/** A limiter on a clock that the test turns. */
function limiterAt(start_ms = 0) {
  const clock = { now_ms: start_ms };
  const limiter = new MemoryRateLimiter(() => clock.now_ms);
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
  clock.now_ms = 9.99;
  expect(take(100)).toBe(1);
  clock.now_ms = 10;
  expect(take(100)).toBeUndefined();
  expect(take(100)).toBe(1);
});

test('an idle client does not save up more than a full bucket', () => {
  const { clock, take } = limiterAt();
  takeAll(() => take(10));
  clock.now_ms = 3_600_000;
  expect(takeAll(() => take(10))).toBe(10);
});

test('a refused request costs nothing', () => {
  const { clock, take } = limiterAt();
  takeAll(() => take(1));
  for (let i = 0; i < 1_000; i++) take(1);
  clock.now_ms = 1_000;
  expect(take(1)).toBeUndefined();
});

test('rate 0 is no limit', () => {
  const { take } = limiterAt();
  for (let i = 0; i < 10_000; i++) expect(take(0)).toBeUndefined();
});

test('a bucket tells how many are left', () => {
  const { clock, limiter } = limiterAt();
  const take = () => limiter.take(requestBucket('a', 3));
  expect(take()).toEqual({ granted: 1, left: 2, retry_after_s: 0 });
  take();
  expect(take()).toEqual({ granted: 1, left: 0, retry_after_s: 1 });
  expect(take()).toEqual({ granted: 0, left: 0, retry_after_s: 1 });
  clock.now_ms = 700;
  expect(take()).toEqual({ granted: 1, left: 1, retry_after_s: 0 });
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
  ])('at a rate of %d, %i ms after the last request: %i', (rate, after_ms, expected) => {
    const { clock, take } = limiterAt();
    takeAll(() => take(rate));
    clock.now_ms = after_ms;
    expect(take(rate)).toBe(expected);
  });

  test('after it every request succeeds, and not a whole second before', () => {
    const rate = fc.oneof(
      fc.integer({ min: 1, max: 2_000 }),
      fc.constantFrom(0.001, 0.3, 0.5, 2.5),
    );
    const start_ms = fc.double({ min: 0, max: 1e9, noNaN: true });
    const steps_ms = fc.array(fc.double({ min: 0, max: 900, noNaN: true }), { maxLength: 40 });
    fc.assert(
      fc.property(rate, start_ms, steps_ms, (rate, start_ms, steps_ms) => {
        const { clock, take } = limiterAt(start_ms);
        for (const step_ms of [0, ...steps_ms]) {
          clock.now_ms += step_ms;
          takeAll(() => take(rate));
          const refused_at_ms = clock.now_ms;
          const retry_after = take(rate)!;
          expect(Number.isInteger(retry_after)).toBe(true);
          if (retry_after > 1) {
            clock.now_ms = refused_at_ms + (retry_after - 1) * 1_000;
            expect(take(rate)).toBeDefined();
          }
          clock.now_ms = refused_at_ms + retry_after * 1_000;
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
  const steps_ms = fc.array(fc.double({ min: 0, max: 40, noNaN: true }), { maxLength: 500 });
  fc.assert(
    fc.property(rate, steps_ms, (rate, steps_ms) => {
      const { clock, take } = limiterAt(1_000_000 / 3);
      const allowed_ms: number[] = [];
      for (const step_ms of steps_ms) {
        clock.now_ms += step_ms;
        if (take(rate) === undefined) allowed_ms.push(clock.now_ms);
      }
      const burst = Math.max(1, rate);
      allowed_ms.forEach((from_ms, i) => {
        const in_window = allowed_ms.slice(i).filter((at_ms) => at_ms <= from_ms + 1_000).length;
        expect(in_window).toBeLessThanOrEqual(rate + burst);
      });
    }),
  );
});

test('L07: 300 requests a second for a minute at a rate of 100 let 6,000 and one burst through', () => {
  const { clock, take } = limiterAt();
  let allowed = 0;
  for (let i = 0; i < 300 * 60; i++) {
    clock.now_ms = (i * 1_000) / 300;
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
    clock.now_ms = 10;
    expect(take(100)).toBeUndefined();
  });

  test('downwards is in force at once: the saved requests are gone', () => {
    const { clock, take } = limiterAt();
    takeAll(() => take(100));
    clock.now_ms = 1_000;
    expect(takeAll(() => take(2))).toBe(2);
  });
});
