import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { atMostWhole, MemoryRateLimiter } from '../../src/service/limits/rate-limit.ts';
import { budgetBucket } from '../support/buckets.ts';

/** A budget on a clock that the test turns; `look` takes nothing. */
function budgetAt(rate = 1) {
  const clock = { now_ms: 5_000 };
  const limiter = new MemoryRateLimiter(() => clock.now_ms);
  const spend = (count: number, own_rate = rate) =>
    limiter.spend(budgetBucket('a', own_rate), count);
  return { clock, limiter, spend, look: (own_rate = rate) => spend(0, own_rate) };
}

test('a full budget is a minute of it, and to look costs nothing', () => {
  const { spend, look } = budgetAt();
  for (let i = 0; i < 1_000; i++) expect(look()).toBeUndefined();
  for (let i = 0; i < 59; i++) expect(spend(1)).toBeUndefined();
  expect(spend(1)).toBe(1);
  expect(look()).toBe(1);
});

test('one comes back each 1/rate seconds', () => {
  const { clock, spend, look } = budgetAt(2);
  expect(spend(120)).toBe(1);
  clock.now_ms += 499;
  expect(look()).toBe(1);
  clock.now_ms += 1;
  expect(look()).toBeUndefined();
  expect(spend(1)).toBe(1);
});

test('what was used beyond it is owed: a request costs a whole budget at most', () => {
  const { clock, spend, look } = budgetAt();
  expect(spend(10_000)).toBe(1);
  clock.now_ms += 1_000;
  expect(look()).toBeUndefined();
  expect(spend(10_000)).toBe(60);
  clock.now_ms += 59_000;
  expect(look()).toBe(1);
  clock.now_ms += 1_000;
  expect(look()).toBeUndefined();
});

test('the debt of many requests at once is a whole budget at most', () => {
  const { clock, spend, look } = budgetAt();
  for (let i = 0; i < 100; i++) spend(10_000);
  expect(look()).toBe(61);
  clock.now_ms += 61_000;
  expect(look()).toBeUndefined();
});

test('guesses in bulk: never more than one request a budget, after the first', () => {
  const { clock, spend, look } = budgetAt();
  let requests = 0;
  for (let second = 0; second < 3_600; second++) {
    clock.now_ms = second * 1_000;
    if (look() !== undefined) continue;
    requests++;
    spend(10_000);
  }
  expect(requests).toBe(61);
});

test("one bucket is not another client's", () => {
  const { limiter, spend } = budgetAt();
  spend(60);
  expect(limiter.spend(budgetBucket('b', 1), 0)).toBeUndefined();
});

test('a small rate still has one', () => {
  const { clock, spend, look } = budgetAt(0.001);
  expect(look()).toBeUndefined();
  expect(spend(5)).toBe(1_000);
  clock.now_ms += 1_000_000;
  expect(look()).toBeUndefined();
});

describe('a rate that is changed', () => {
  test('upwards is in force at once', () => {
    const { spend, look } = budgetAt(0.001);
    spend(1);
    expect(look(100)).toBe(61);
    expect(look(0)).toBeUndefined();
  });
});

test('after retry_after there is one, and not a whole second before', () => {
  const steps = fc.array(fc.record({ pause_ms: fc.nat(20_000), count: fc.nat(200) }), {
    maxLength: 50,
  });
  const rate = fc.constantFrom(0.001, 0.3, 1, 2.5, 40);
  fc.assert(
    fc.property(rate, steps, (rate, steps) => {
      const { clock, spend, look } = budgetAt(rate);
      for (const { pause_ms, count } of steps) {
        clock.now_ms += pause_ms;
        const retry_after_s = spend(count);
        expect(look()).toBe(retry_after_s);
        if (retry_after_s === undefined) continue;
        const before_ms = clock.now_ms;
        clock.now_ms = before_ms + (retry_after_s - 1) * 1_000;
        expect(look()).toBeDefined();
        clock.now_ms = before_ms + retry_after_s * 1_000;
        expect(look()).toBeUndefined();
        clock.now_ms = before_ms;
      }
    }),
  );
});

test.each([
  [1, 60],
  [0.5, 30],
  [0.01, 1],
  [0.001, 1],
])('at a rate of %d a request costs %i at most', (rate, cost) => {
  expect(atMostWhole(budgetBucket('a', rate), 10_000)).toBe(cost);
  expect(atMostWhole(budgetBucket('a', rate), 0)).toBe(0);
});
