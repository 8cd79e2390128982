import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Client } from '../../src/client-settings.ts';
import { atMostWhole, MemoryBuckets, NO_OUTCOME } from '../../src/limits/buckets.ts';
import { type Admission, ClientLimits } from '../../src/limits/client-limits.ts';
import {
  budgetBucket,
  refusalOf,
  request,
  requestBucket,
  unknownTokens,
} from '../support/buckets.ts';

/** Buckets on a clock that the test turns. test/redis/buckets.test.ts compares Redis with them. */
function bucketsAt(startMs = 0) {
  const clock = { nowMs: startMs };
  return { clock, buckets: new MemoryBuckets(() => clock.nowMs) };
}

describe('a bucket of requests', () => {
  function bucketAt(startMs = 0) {
    const { clock, buckets } = bucketsAt(startMs);
    const take = (rate: number, name = 'a') =>
      refusalOf(buckets.charge(requestBucket(name, rate), 1, NO_OUTCOME));
    const takeAll = (rate: number, name = 'a') => {
      let taken = 0;
      while (take(rate, name) === undefined) taken++;
      return taken;
    };
    return { clock, buckets, take, takeAll };
  }

  test.each([1, 3, 60, 999_999, 0.001, 0.5, 1.5, 2.9])(
    'of a rate of %d holds as many whole requests when it is full, and at least one',
    (rate) => expect(bucketAt(123_456.789).takeAll(rate)).toBe(Math.max(1, Math.floor(rate))),
  );

  test('gets one request back each 1/rate seconds, and not more than a full bucket', () => {
    const { clock, take, takeAll } = bucketAt();
    takeAll(100);
    clock.nowMs = 9.99;
    expect(take(100)).toBe(1);
    clock.nowMs = 10;
    expect([take(100), take(100)]).toEqual([undefined, 1]);
    clock.nowMs = 3_600_000;
    expect(takeAll(100)).toBe(100);
  });

  test('is not taken from by refused requests, nor by those of another client', () => {
    const { clock, take, takeAll } = bucketAt();
    takeAll(1);
    for (let i = 0; i < 1_000; i++) take(1);
    expect(takeAll(5, 'b')).toBe(5);
    clock.nowMs = 1_000;
    expect(take(1)).toBeUndefined();
  });

  test('grants a request after retry_after, and not a whole second before', () => {
    const rate = fc.oneof(
      fc.integer({ min: 1, max: 2_000 }),
      fc.constantFrom(0.001, 0.3, 0.5, 2.5),
    );
    const startMs = fc.double({ min: 0, max: 1e9, noNaN: true });
    const stepsMs = fc.array(fc.double({ min: 0, max: 900, noNaN: true }), { maxLength: 40 });
    fc.assert(
      fc.property(rate, startMs, stepsMs, (rate, startMs, stepsMs) => {
        const { clock, take, takeAll } = bucketAt(startMs);
        for (const stepMs of [0, ...stepsMs]) {
          clock.nowMs += stepMs;
          takeAll(rate);
          const refusedAtMs = clock.nowMs;
          const retryAfter = take(rate)!;
          expect(Number.isInteger(retryAfter)).toBe(true);
          clock.nowMs = refusedAtMs + (retryAfter - 1) * 1_000;
          if (retryAfter > 1) expect(take(rate)).toBeDefined();
          clock.nowMs = refusedAtMs + retryAfter * 1_000;
          expect(take(rate)).toBeUndefined();
        }
      }),
      { numRuns: 50 },
    );
    // A clock whose sums round up.
    const { take, takeAll } = bucketAt(6974.507186452428);
    takeAll(1);
    expect(take(1)).toBe(1);
  });

  test('lets no more than rate and burst through in any second', () => {
    const rate = fc.oneof(fc.integer({ min: 1, max: 50 }), fc.constantFrom(0.5, 1.5, 2.7));
    const stepsMs = fc.array(fc.double({ min: 0, max: 40, noNaN: true }), { maxLength: 500 });
    fc.assert(
      fc.property(rate, stepsMs, (rate, stepsMs) => {
        const { clock, take } = bucketAt(1_000_000 / 3);
        const allowedMs: number[] = [];
        for (const stepMs of stepsMs) {
          clock.nowMs += stepMs;
          if (take(rate) === undefined) allowedMs.push(clock.nowMs);
        }
        allowedMs.forEach((fromMs, i) => {
          const inWindow = allowedMs.slice(i).filter((atMs) => atMs <= fromMs + 1_000).length;
          expect(inWindow).toBeLessThanOrEqual(rate + Math.max(1, rate));
        });
      }),
    );
  });

  test('has a raised rate at once: the old wait is forgotten', () => {
    const { clock, take } = bucketAt();
    expect([take(0.001), take(0.001), take(100)]).toEqual([undefined, 1_000, 1]);
    clock.nowMs = 10;
    expect(take(100)).toBeUndefined();
  });

  test('has a lowered rate at once: the saved requests are gone', () => {
    const { clock, takeAll } = bucketAt();
    takeAll(100);
    clock.nowMs = 1_000;
    expect(takeAll(2)).toBe(2);
  });
});

describe('a budget of unknown tokens', () => {
  /** `look` takes nothing. */
  function budgetAt(rate = 1) {
    const { clock, buckets } = bucketsAt(5_000);
    const charge = (count: number, outcome = NO_OUTCOME, ownRate = rate) =>
      buckets.charge(budgetBucket('a', ownRate), count, outcome);
    const spend = (count: number, ownRate = rate) => {
      const spent = unknownTokens(atMostWhole(budgetBucket('a', ownRate), count));
      return charge(0, spent, ownRate).retryAfterS || undefined;
    };
    /** A request after another, as they are counted; false: it was refused. */
    const ask = (known: number, unknown: number) => {
      if (charge(1).granted === 0) return false;
      charge(0, request(known, unknown));
      return true;
    };
    /** Requests of one token until one is refused: how many were right, and how many wrong. */
    const guess = (most = 1_000, right = 0) => {
      const counts = { restored: 0, missed: 0 };
      for (let i = 1; i <= most; i++) {
        const isRight = Math.floor(i * right) > Math.floor((i - 1) * right);
        if (!ask(Number(isRight), Number(!isRight))) break;
        counts[isRight ? 'restored' : 'missed']++;
      }
      return counts;
    };
    return { clock, buckets, charge, spend, ask, guess, look: (own = rate) => spend(0, own) };
  }

  test('is a minute of it, and to look costs nothing', () => {
    const { buckets, spend, look } = budgetAt();
    for (let i = 0; i < 1_000; i++) expect(look()).toBeUndefined();
    for (let i = 0; i < 59; i++) expect(spend(1)).toBeUndefined();
    expect([spend(1), look()]).toEqual([1, 1]);
    expect(buckets.charge(budgetBucket('b', 1), 0, NO_OUTCOME).left).toBe(60);
  });

  test('owes what was used beyond it: a request costs a whole budget at most', () => {
    const { clock, spend, look } = budgetAt();
    expect(spend(10_000)).toBe(1);
    clock.nowMs += 1_000;
    expect([look(), spend(10_000)]).toEqual([undefined, 60]);
    clock.nowMs += 59_000;
    expect(look()).toBe(1);
    clock.nowMs += 1_000;
    expect(look()).toBeUndefined();
    for (let i = 0; i < 100; i++) spend(10_000);
    expect(look()).toBe(61);
  });

  test('of a small rate still has one, and does not refuse known tokens', () => {
    const { clock, spend, look, ask } = budgetAt(0.001);
    expect([look(), spend(5)]).toEqual([undefined, 1_000]);
    clock.nowMs += 1_000_000;
    for (let i = 0; i < 1_000; i++) expect(ask(1, 0)).toBe(true);
  });

  test('does not have what is reserved until it is charged', () => {
    const { charge } = budgetAt();
    expect(charge(70)).toEqual({ granted: 60, left: 0, retryAfterS: 1 });
    expect(charge(1).granted).toBe(0);
    expect(charge(9, { ...NO_OUTCOME, ended: 5 })).toMatchObject({ granted: 5 });
    expect(charge(1, request(0, 1)).granted).toBe(0);
  });

  test.each([0, 0.02, 0.2, 0.45])(
    'L23: of guesses of which %d are right, lets a budget through at most',
    (right) => {
      const { restored, missed } = budgetAt().guess(10_000, right);
      expect(restored + missed).toBe(60);
    },
  );

  test('is not spent by known tokens once a client is trusted', () => {
    const { ask, charge } = budgetAt();
    for (let i = 0; i < 10_000; i++) expect(ask(1, 0)).toBe(true);
    expect(charge(0).left).toBeGreaterThanOrEqual(60 - 30 + 60);
  });

  test('grows by one unknown token for ten known ones', () => {
    const { ask, guess } = budgetAt();
    expect(ask(100, 0)).toBe(true);
    expect(guess()).toEqual({ restored: 0, missed: 68 });
  });

  test('is doubled by known tokens at most, and no more again before it has come back', () => {
    const { clock, ask, guess } = budgetAt();
    // After the first second one has come back, and one is earned.
    for (const [passedMs, missed] of [
      [0, 118] as const,
      [1_000, 2] as const,
      [59_000, 117] as const,
    ]) {
      clock.nowMs += passedMs;
      ask(10_000, 0);
      expect(guess().missed).toBe(missed);
    }
  });

  test('L22: refuses none of 20 requests a second in an hour, one in twelve unknown', () => {
    const { clock, ask } = budgetAt();
    for (let i = 1; i <= 20 * 3_600; i++) {
      expect(ask(Number(i % 12 > 0), Number(i % 12 === 0))).toBe(true);
      clock.nowMs += 50;
    }
  });

  test('forgets what was earned when the client is silent for long', () => {
    const { clock, ask, guess } = budgetAt();
    ask(10_000, 0);
    clock.nowMs += 600_001;
    expect(guess().missed).toBe(60);
  });
});

describe('the limits of a client', () => {
  const NONE = { rate_limit: 0, detokenize_limit: 0, lookup_limit: 0, unknown_token_limit: 0 };
  const DEFAULT = { rate_limit: null, detokenize_limit: null, lookup_limit: null };
  const CLIENT = { client_id: 'a', ...DEFAULT, unknown_token_limit: null } as unknown as Client;
  const limitsOf = (
    defaults = NONE,
    tell: ConstructorParameters<typeof ClientLimits>[2] = () => {},
  ) => new ClientLimits(new MemoryBuckets(() => 0), defaults, tell);

  test.each([
    ['its own limit comes before the default', { ...CLIENT, lookup_limit: 1 }, NONE],
    ['the default is that of its operation', CLIENT, { ...NONE, lookup_limit: 1 }],
  ])('%s, and look-ups have one of their own', (_, client, defaults) => {
    const limits = limitsOf(defaults);
    const refused = (operation: 'tokenize' | 'lookup') =>
      (limits.admit(client, operation) as Admission).isRefused;
    const all = [refused('lookup'), refused('lookup'), refused('tokenize'), refused('tokenize')];
    expect(all).toEqual([false, true, false, false]);
  });

  test('are told when they refuse: at once, then once a minute how often since', () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const told: [string, number][] = [];
    const limits = limitsOf(NONE, (_, limit, refused) => told.push([limit, refused]));
    const client = { ...CLIENT, rate_limit: 1, lookup_limit: 1 };
    for (const operation of ['tokenize', 'lookup'] as const) void limits.admit(client, operation);
    for (let minute = 0; minute < 3; minute++) {
      for (let i = 0; i < 4; i++) void limits.admit(client, 'tokenize');
      vi.advanceTimersByTime(60_000);
    }
    void limits.admit(client, 'lookup');
    const requests = [1, 4, 4].map((refused) => ['requests', refused]);
    expect(told).toEqual([...requests, ['lookup', 1]]);
  });

  test('give no guesses for known tokens beside unknown ones in a refused request', () => {
    const limits = limitsOf();
    const client = { ...CLIENT, unknown_token_limit: 1 };
    for (const hasGaps of [false, true]) {
      if (limits.reserve(client) === undefined)
        void limits.charge(client, { known: 600, unknown: 2_400 }, hasGaps);
      expect(limits.reserve(client)).toMatchObject({ isRefused: true });
    }
  });

  test('pay for each gap from the budget, then from what known tokens earned, to the last one', () => {
    const limits = limitsOf();
    const client = { ...CLIENT, unknown_token_limit: 1 };
    for (const [known, unknown] of [[600, 30] as const, [0, 60] as const]) {
      const told = [limits.reserve(client), limits.charge(client, { known, unknown }, true)];
      expect(told).toEqual([undefined, undefined]);
    }
    expect(limits.reserve(client)).toMatchObject({ state: { left: 0, windowS: 1 } });
  });
});
