import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { ByteBudget, type Reservation, STALLED_AFTER_TICKS } from '../../src/limits/byte-budget.ts';

const SMALL_BYTES = 65_536;
const BYTES = 16 * SMALL_BYTES;

function setUp() {
  const cut: Reservation[] = [];
  let cuts = 0;
  const budget = new ByteBudget(BYTES, () => cuts++);
  /** How many of so many new holders get the bytes. */
  const grant = (count: number, bytes: number, open = () => budget.open('a')) =>
    Array.from({ length: count }, open).filter((holder) => budget.reserve(holder, bytes)).length;
  /** Holders that wait for their callers since then. */
  const waiting = (count: number, clientIdOf: (i: number) => string): Reservation[] =>
    Array.from({ length: count }, (_, i) => {
      const holder = budget.open(clientIdOf(i));
      expect(budget.reserve(holder, SMALL_BYTES)).toBe(true);
      budget.wait(holder, () => cut.push(holder));
      return holder;
    });
  const tick = (count: number) => {
    for (let i = 0; i < count; i++) budget.tick();
  };
  return { budget, cut, cuts: () => cuts, grant, waiting, tick };
}

describe('shares', () => {
  test('a client holds half of the budget at most, and leaves the rest to others', () => {
    const { budget, grant } = setUp();
    expect(grant(16, SMALL_BYTES)).toBe(8);
    expect(grant(1, SMALL_BYTES, () => budget.open('b'))).toBe(1);
    expect(budget.held).toBe(9 * SMALL_BYTES);
  });

  test('large holders leave a quarter free for small ones', () => {
    const { budget, grant } = setUp();
    expect(budget.largest).toBe(6 * SMALL_BYTES);
    expect([grant(8, 2 * SMALL_BYTES), grant(2, SMALL_BYTES), grant(1, 1)]).toEqual([3, 2, 0]);
  });

  test('those whose client is not known have an eighth together, so have requests sent ahead', () => {
    const { budget, grant } = setUp();
    for (const open of [() => budget.open(undefined), () => budget.openAhead()])
      expect(grant(4, SMALL_BYTES, open)).toBe(2);
  });

  test('the only holder is never refused, however much it needs', () => {
    const { budget, grant } = setUp();
    const only = budget.open('b');
    expect([budget.reserve(only, 3 * BYTES), budget.reserve(only, BYTES), grant(1, 1)]).toEqual([
      true,
      true,
      0,
    ]);
    budget.shrinkTo(only, 0);
    expect([budget.held, grant(1, 1)]).toEqual([0, 1]);
  });

  test('what is counted beside holders leaves less to them', () => {
    const { budget, grant } = setUp();
    budget.count(BYTES - 10);
    expect([grant(1, 11), grant(1, 10), budget.heldByRequests]).toEqual([0, 1, 10]);
    budget.count(10 - BYTES);
    expect(budget.held).toBe(10);
  });
});

describe('holders that wait for their callers', () => {
  test('are cut off when the budget is short, the longest wait first, and no more than it takes', () => {
    const { budget, cut, cuts, grant, waiting, tick } = setUp();
    const holders = waiting(16, (i) => `client ${i % 2}`);
    tick(STALLED_AFTER_TICKS);
    expect(grant(1, 100)).toBe(1);
    expect([cut, cuts(), holders[0]!.bytes]).toEqual([[holders[0]], 1, 0]);
    expect(budget.held).toBe(15 * SMALL_BYTES + 100);
  });

  test('are cut off of the same client when that has too much', () => {
    const { cut, grant, waiting, tick } = setUp();
    const [other, ...holders] = waiting(9, (i) => (i === 0 ? 'b' : 'a'));
    tick(STALLED_AFTER_TICKS);
    expect(grant(1, 1)).toBe(1);
    expect([cut, other!.bytes]).toEqual([[holders[0]], SMALL_BYTES]);
  });

  test('are kept while there is room, however long they wait', () => {
    const { cut, grant, waiting, tick } = setUp();
    waiting(1, () => 'a');
    tick(1_000);
    expect([grant(1, SMALL_BYTES), cut]).toEqual([1, []]);
  });

  test('are kept while their callers do something: then the new one is refused', () => {
    const { budget, cut, grant, waiting, tick } = setUp();
    const holders = waiting(8, () => 'a');
    tick(5);
    for (const holder of holders) budget.move(holder);
    tick(STALLED_AFTER_TICKS - 1);
    expect([grant(1, 1), cut]).toEqual([0, []]);
    budget.move(holders[0]!);
    tick(1);
    expect([grant(1, 1), cut]).toEqual([1, [holders[1]]]);
  });

  test('are kept once they go on, and one never cuts itself off', () => {
    const { budget, cut, waiting, tick } = setUp();
    const holders = waiting(8, () => 'a');
    for (const holder of holders.slice(1, 4)) budget.resume(holder);
    for (const holder of holders.slice(4)) budget.shrinkTo(holder, SMALL_BYTES);
    for (const holder of holders.slice(1)) budget.move(holder);
    tick(1_000);
    expect([budget.reserve(holders[0]!, 1), cut]).toEqual([false, []]);
  });

  test('are cut off after a second of the clock, which runs from the start to the stop', () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const { budget, grant, waiting } = setUp();
    waiting(8, () => 'a');
    budget.start();
    vi.advanceTimersByTime(999);
    expect(grant(1, 1)).toBe(0);
    vi.advanceTimersByTime(1);
    expect(grant(1, 1)).toBe(1);
    budget.stop();
    expect(vi.getTimerCount()).toBe(0);
  });
});

test('any holders: what is held is what they hold together, and within the budget', () => {
  const step = fc.record({
    holder: fc.nat({ max: 9 }),
    bytes: fc.nat({ max: 3 * SMALL_BYTES }),
    action: fc.constantFrom('reserve', 'wait', 'move', 'shrink', 'resume'),
    ticks: fc.nat({ max: STALLED_AFTER_TICKS }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
      const { budget } = setUp();
      const holders = Array.from({ length: 10 }, (_, i) =>
        budget.open(i === 0 ? undefined : `client ${i % 3}`),
      );
      for (const { holder: index, bytes, action, ticks } of steps) {
        for (let i = 0; i < ticks; i++) budget.tick();
        const holder = holders[index]!;
        if (action === 'reserve') budget.reserve(holder, bytes);
        else if (action === 'wait') budget.wait(holder, () => {});
        else if (action === 'move') budget.move(holder);
        else if (action === 'shrink') budget.shrinkTo(holder, Math.min(bytes, holder.bytes));
        else budget.resume(holder);
        const held = holders.filter((one) => one.bytes > 0);
        expect(budget.held).toBe(held.reduce((sum, one) => sum + one.bytes, 0));
        if (held.length > 1) {
          const largest = Math.max(...held.map((one) => one.bytes));
          expect(budget.held - largest).toBeLessThanOrEqual(BYTES);
        }
      }
    }),
  );
});
