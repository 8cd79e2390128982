import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MemoryRateLimiter } from '../../src/service/rate-limit.ts';

function limiterAt(start_ms: number) {
  const clock = { now_ms: start_ms };
  return { clock, limiter: new MemoryRateLimiter(() => clock.now_ms) };
}

test('a full bucket holds one second of requests; then one comes free each interval', () => {
  const { clock, limiter } = limiterAt(5_000);
  const allowed = () => limiter.take('c', 100) === undefined;
  expect(Array.from({ length: 101 }, allowed).filter(Boolean)).toHaveLength(100);
  clock.now_ms += 10;
  expect([allowed(), allowed()]).toEqual([true, false]);
  clock.now_ms += 60_000;
  expect(Array.from({ length: 150 }, allowed).filter(Boolean)).toHaveLength(100);
});

test('retry_after is exact: after it a request is allowed, a moment before it is not', () => {
  const { clock, limiter } = limiterAt(0);
  expect(limiter.take('c', 0.25)).toBeUndefined();
  expect(limiter.take('c', 0.25)).toBe(4);
  clock.now_ms += 3_999;
  expect(limiter.take('c', 0.25)).toBe(1);
  clock.now_ms += 1;
  expect(limiter.take('c', 0.25)).toBeUndefined();
});

test('0 is no limit, and clients do not share buckets', () => {
  const { limiter } = limiterAt(0);
  for (let i = 0; i < 1_000; i++) expect(limiter.take('c', 0)).toBeUndefined();
  expect(limiter.take('a', 1)).toBeUndefined();
  expect(limiter.take('a', 1)).toBe(1);
  expect(limiter.take('b', 1)).toBeUndefined();
});

test('in no window are more allowed than one bucket and what came free in it; all are after retry_after', () => {
  const pauses = fc.array(fc.integer({ min: 0, max: 400 }), { minLength: 1, maxLength: 400 });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 50 }), pauses, (rate, gaps) => {
      const { clock, limiter } = limiterAt(1_000);
      const allowed_at: number[] = [];
      for (const gap of gaps) {
        clock.now_ms += gap;
        const retry_after_s = limiter.take('c', rate);
        if (retry_after_s === undefined) allowed_at.push(clock.now_ms);
        else {
          clock.now_ms += retry_after_s * 1_000;
          expect(limiter.take('c', rate)).toBeUndefined();
          allowed_at.push(clock.now_ms);
        }
      }
      allowed_at.forEach((from, i) => {
        const inside = allowed_at.slice(i).filter((at) => at < from + 1_000).length;
        expect(inside).toBeLessThanOrEqual(2 * rate + 1);
      });
    }),
    { numRuns: 200 },
  );
});
