import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { atMostWhole, MemoryBuckets, NO_OUTCOME } from '../../src/limits/buckets.ts';
import { budgetBucket, request, unknownTokens } from '../support/buckets.ts';

/** A budget on a clock that the test turns; `look` takes nothing. */
function budgetAt(rate = 1) {
  const clock = { nowMs: 5_000 };
  const limiter = new MemoryBuckets(() => clock.nowMs);
  const settle = (count: number, outcome = NO_OUTCOME, ownRate = rate) =>
    limiter.settle(budgetBucket('a', ownRate), count, outcome);
  const spend = (count: number, ownRate = rate) => {
    const spent = unknownTokens(atMostWhole(budgetBucket('a', ownRate), count));
    return settle(0, spent, ownRate).retryAfterS || undefined;
  };
  /** A request after another, as they are counted; false: it was refused. */
  const ask = (known: number, unknown: number) => {
    if (settle(1).granted === 0) return false;
    settle(0, request(known, unknown));
    return true;
  };
  return { clock, limiter, settle, spend, ask, look: (ownRate = rate) => spend(0, ownRate) };
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
  clock.nowMs += 499;
  expect(look()).toBe(1);
  clock.nowMs += 1;
  expect(look()).toBeUndefined();
  expect(spend(1)).toBe(1);
});

test('what was used beyond it is owed: a request costs a whole budget at most', () => {
  const { clock, spend, look } = budgetAt();
  expect(spend(10_000)).toBe(1);
  clock.nowMs += 1_000;
  expect(look()).toBeUndefined();
  expect(spend(10_000)).toBe(60);
  clock.nowMs += 59_000;
  expect(look()).toBe(1);
  clock.nowMs += 1_000;
  expect(look()).toBeUndefined();
});

test('the debt of many requests at once is a whole budget at most', () => {
  const { clock, spend, look } = budgetAt();
  for (let i = 0; i < 100; i++) spend(10_000);
  expect(look()).toBe(61);
  clock.nowMs += 61_000;
  expect(look()).toBeUndefined();
});

test('guesses in bulk: never more than one request a budget, after the first', () => {
  const { clock, spend, look } = budgetAt();
  let requests = 0;
  for (let second = 0; second < 3_600; second++) {
    clock.nowMs = second * 1_000;
    if (look() !== undefined) continue;
    requests++;
    spend(10_000);
  }
  expect(requests).toBe(61);
});

test("one bucket is not another client's", () => {
  const { limiter, spend } = budgetAt();
  spend(60);
  expect(limiter.settle(budgetBucket('b', 1), 0, NO_OUTCOME).left).toBe(60);
});

test('a small rate still has one', () => {
  const { clock, spend, look } = budgetAt(0.001);
  expect(look()).toBeUndefined();
  expect(spend(5)).toBe(1_000);
  clock.nowMs += 1_000_000;
  expect(look()).toBeUndefined();
});

describe('what is reserved', () => {
  test('is not there for others until it is settled', () => {
    const { settle } = budgetAt();
    expect(settle(70)).toEqual({ granted: 60, left: 0, retryAfterS: 1 });
    expect(settle(1).granted).toBe(0);
    expect(settle(9, { ...NO_OUTCOME, ended: 5 })).toMatchObject({ granted: 5 });
    expect(settle(1, request(0, 1)).granted).toBe(0);
  });

  test('comes back with the time when nobody settles it', () => {
    const { clock, settle } = budgetAt();
    settle(60);
    clock.nowMs += 30_000;
    expect(settle(0).left).toBe(30);
  });
});

describe('known tokens', () => {
  /** Requests of one token, one after the other, until one is refused or so many were let through. */
  function guesses(ask: (known: number, unknown: number) => boolean, right: number, most: number) {
    const counts = { restored: 0, missed: 0 };
    for (let i = 1; i <= most; i++) {
      const isRight = Math.floor(i * right) > Math.floor((i - 1) * right);
      if (!ask(Number(isRight), Number(!isRight))) break;
      if (isRight) counts.restored++;
      else counts.missed++;
    }
    return counts;
  }

  test.each([0, 0.02, 0.2, 0.45])(
    'L23: guesses of which %d are right are a budget at most',
    (right) => {
      const { restored, missed } = guesses(budgetAt().ask, right, 10_000);
      expect(restored + missed).toBe(60);
    },
  );

  test('cost nothing once a client is trusted', () => {
    const { ask, settle } = budgetAt();
    for (let i = 0; i < 10_000; i++) expect(ask(1, 0)).toBe(true);
    expect(settle(0).left).toBeGreaterThanOrEqual(60 - 30 + 60);
  });

  test('earn one unknown token for ten of them, beside the budget', () => {
    const { ask } = budgetAt();
    expect(ask(100, 0)).toBe(true);
    expect(guesses(ask, 0, 1_000)).toEqual({ restored: 0, missed: 68 });
  });

  test('earn a whole budget at most, and no more again before it has come back', () => {
    const { clock, ask } = budgetAt();
    ask(10_000, 0);
    expect(guesses(ask, 0, 1_000).missed).toBe(118);
    clock.nowMs += 1_000;
    ask(10_000, 0);
    // One has come back, and one is earned.
    expect(guesses(ask, 0, 1_000).missed).toBe(2);
    clock.nowMs += 59_000;
    ask(10_000, 0);
    expect(guesses(ask, 0, 1_000).missed).toBe(117);
  });

  test('what a client that guesses all day is let through is twice its rate', () => {
    const { clock, ask } = budgetAt();
    let missed = 0;
    for (let second = 0; second < 86_400; second += 10) {
      ask(10_000, 0);
      missed += guesses(ask, 0, 1_000).missed;
      clock.nowMs += 10_000;
    }
    expect(missed).toBeLessThanOrEqual(2 * (86_400 + 60));
  });

  test('20 requests a second, one in twelve unknown: none is refused in an hour', () => {
    const { clock, ask } = budgetAt();
    for (let i = 1; i <= 20 * 3_600; i++) {
      expect(ask(Number(i % 12 > 0), Number(i % 12 === 0))).toBe(true);
      clock.nowMs += 50;
    }
  });

  test('what they earned is forgotten when the client is silent for long', () => {
    const { clock, ask } = budgetAt();
    ask(10_000, 0);
    clock.nowMs += 600_001;
    expect(guesses(ask, 0, 1_000).missed).toBe(60);
  });

  test('of a client with a small budget are not refused', () => {
    const { ask } = budgetAt(0.001);
    for (let i = 0; i < 1_000; i++) expect(ask(1, 0)).toBe(true);
  });
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
  const steps = fc.array(fc.record({ pauseMs: fc.nat(20_000), count: fc.nat(200) }), {
    maxLength: 50,
  });
  const rate = fc.constantFrom(0.001, 0.3, 1, 2.5, 40);
  fc.assert(
    fc.property(rate, steps, (rate, steps) => {
      const { clock, spend, look } = budgetAt(rate);
      for (const { pauseMs, count } of steps) {
        clock.nowMs += pauseMs;
        const retryAfterS = spend(count);
        expect(look()).toBe(retryAfterS);
        if (retryAfterS === undefined) continue;
        const beforeMs = clock.nowMs;
        clock.nowMs = beforeMs + (retryAfterS - 1) * 1_000;
        expect(look()).toBeDefined();
        clock.nowMs = beforeMs + retryAfterS * 1_000;
        expect(look()).toBeUndefined();
        clock.nowMs = beforeMs;
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
