import { describe, expect, test, vi } from 'vitest';
import { type Buckets, type Grant, MemoryBuckets, NO_OUTCOME } from '../../src/limits/buckets.ts';
import { LookUps } from '../../src/limits/client-limits.ts';
import { budgetBucket, request } from '../support/buckets.ts';

/** A budget of six. */
const SIX = budgetBucket('a', 0.1);
const FAILED = { ...NO_OUTCOME, ended: 1 };

/** Buckets over the network: their answers come in a later turn. */
function remote(buckets: MemoryBuckets): Pick<Buckets, 'charge'> {
  const later = async (grant: Grant) => {
    await new Promise((resolve) => setImmediate(resolve));
    return grant;
  };
  return {
    charge: (bucket, count, outcome) => later(buckets.charge(bucket, count, outcome)),
  };
}

/** What each of so many requests was told, as far as they were told; `place` is one that goes on. */
function ask(lookUps: LookUps, count: number) {
  const told: ('place' | 'refused' | 'overloaded')[] = [];
  const all = Array.from({ length: count }, async (_, i) => {
    try {
      const retryAfterS = await lookUps.reserve(SIX);
      told[i] = retryAfterS === undefined ? 'place' : 'refused';
      return retryAfterS;
    } catch {
      told[i] = 'overloaded';
      return undefined;
    }
  });
  const counted = (kind: string) => told.filter((one) => one === kind).length;
  return { all, counted };
}

async function turns(): Promise<void> {
  for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve));
}

describe.each([
  ['in memory', (buckets: MemoryBuckets): Pick<Buckets, 'charge'> => buckets],
  ['over the network', remote],
])('a budget %s', (_, of) => {
  const start = () => new LookUps(of(new MemoryBuckets(() => 0)));

  test('lets as many in as it could pay for; others wait, and go on when places come back', async () => {
    const lookUps = start();
    const { all, counted } = ask(lookUps, 10);
    await turns();
    expect([counted('place'), counted('refused')]).toEqual([6, 0]);
    for (let i = 0; i < 4; i++) await lookUps.charge(SIX, request(1, 0));
    await turns();
    // The first two are not trusted yet: their places are not given back.
    expect(counted('place')).toBe(8);
    for (let i = 0; i < 4; i++) await lookUps.charge(SIX, FAILED);
    await Promise.all(all);
    expect([counted('place'), counted('refused')]).toEqual([10, 0]);
    for (let i = 0; i < 2; i++) await lookUps.charge(SIX, FAILED);
    expect(await lookUps.isSpent(SIX)).toBeUndefined();
  });

  test('that is spent by those under way refuses those that wait', async () => {
    const lookUps = start();
    const { all, counted } = ask(lookUps, 9);
    await turns();
    for (let i = 0; i < 6; i++) {
      expect(counted('refused')).toBe(0);
      await lookUps.charge(SIX, request(0, 1));
    }
    expect(await Promise.all(all)).toEqual([...Array(6).fill(undefined), 10, 10, 10]);
    expect(await lookUps.isSpent(SIX)).toBe(10);
    expect(await lookUps.reserve(SIX)).toBe(10);
    expect(await lookUps.isSpent(SIX)).toBe(10);
  });

  test('whose requests under way do not end refuses those that wait as overload', async () => {
    const lookUps = start();
    const { all, counted } = ask(lookUps, 8);
    await Promise.all(all);
    expect([counted('place'), counted('overloaded')]).toEqual([6, 2]);
    for (let i = 0; i < 6; i++) await lookUps.charge(SIX, FAILED);
    expect(await lookUps.isSpent(SIX)).toBeUndefined();
    expect(await lookUps.reserve(SIX)).toBeUndefined();
  });
});

test('a place that is granted to a waiter that has gone is given back', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    const buckets = new MemoryBuckets(() => 0);
    let isHeld = false;
    let deliver = () => {};
    const lookUps = new LookUps({
      charge: async (...asked) => {
        const grant = buckets.charge(...asked);
        if (isHeld) await new Promise<void>((resolve) => (deliver = resolve));
        return grant;
      },
    });
    const { counted } = ask(lookUps, 7);
    await turns();
    expect(counted('place')).toBe(6);
    isHeld = true;
    const charged = lookUps.charge(SIX, FAILED);
    vi.advanceTimersByTime(999);
    await turns();
    expect(counted('overloaded')).toBe(0);
    vi.advanceTimersByTime(1);
    isHeld = false;
    deliver();
    await charged;
    await turns();
    expect(counted('overloaded')).toBe(1);
    for (let i = 0; i < 5; i++) await lookUps.charge(SIX, FAILED);
    expect(buckets.charge(SIX, 0, NO_OUTCOME).left).toBe(6);
  } finally {
    vi.useRealTimers();
  }
});

test('a budget is not asked whether it is spent while it has guesses, nor by those behind others that wait', async () => {
  let nowMs = 0;
  const buckets = new MemoryBuckets(() => nowMs);
  const asked = vi.spyOn(buckets, 'charge');
  const lookUps = new LookUps(buckets);
  expect([lookUps.isSpent(SIX), asked.mock.calls]).toEqual([undefined, []]);
  const { all } = ask(lookUps, 9);
  expect(asked).toHaveBeenCalledTimes(7);
  for (let i = 0; i < 6; i++) void lookUps.charge(SIX, request(0, 1));
  await Promise.all(all);
  nowMs = 10_000;
  for (const _ of 'twice') expect(lookUps.isSpent(SIX)).toBeUndefined();
  expect(asked).toHaveBeenCalledTimes(7 + 6 + 1);
});

test('one that waits when the last place comes back is refused for a second at least', async () => {
  const late = Promise.resolve({ granted: 0, left: 3, retryAfterS: 0 });
  const refused = { granted: 0, left: 0, retryAfterS: 5 };
  const grants = [{ granted: 1, left: 5, retryAfterS: 0 }, late, refused];
  const lookUps = new LookUps({ charge: () => grants.shift()! });
  expect(lookUps.reserve(SIX)).toBeUndefined();
  const charged = lookUps.charge(SIX, FAILED);
  const waiting = lookUps.reserve(SIX);
  await charged;
  expect(await waiting).toBe(1);
});
