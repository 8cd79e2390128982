import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  ByteBudget,
  type Holder,
  SMALL_BYTES,
  STALLED_AFTER_TICKS,
} from '../../src/limits/byte-budget.ts';

const BYTES = 16 * SMALL_BYTES;

function setUp() {
  const cut: Holder[] = [];
  let cuts = 0;
  const budget = new ByteBudget(BYTES, () => {
    cuts++;
  });
  /** A holder that waits for its caller since then. */
  const waiting = (clientId: string, bytes: number): Holder => {
    const holder = budget.open(clientId);
    expect(budget.grow(holder, bytes)).toBe(true);
    budget.wait(holder, () => cut.push(holder));
    return holder;
  };
  return { budget, cut, cuts: () => cuts, waiting };
}

describe('shares', () => {
  test('a client holds half of the budget at most, and leaves the rest to others', () => {
    const { budget } = setUp();
    const all = Array.from({ length: 16 }, () => budget.open('a'));
    const granted = all.filter((holder) => budget.grow(holder, SMALL_BYTES));
    expect(granted).toHaveLength(8);
    expect(budget.grow(budget.open('b'), SMALL_BYTES)).toBe(true);
    expect(budget.held).toBe(9 * SMALL_BYTES);
  });

  test('large holders leave a quarter free for small ones', () => {
    const { budget } = setUp();
    const large = Array.from({ length: 8 }, () => budget.open('a'));
    expect(large.filter((holder) => budget.grow(holder, 2 * SMALL_BYTES))).toHaveLength(3);
    expect(budget.grow(budget.open('a'), SMALL_BYTES)).toBe(true);
    expect(budget.grow(budget.open('a'), SMALL_BYTES)).toBe(true);
    expect(budget.grow(budget.open('a'), 1)).toBe(false);
  });

  test('those whose client is not known have an eighth together, so have requests sent ahead', () => {
    const { budget } = setUp();
    for (const open of [() => budget.open(undefined), () => budget.openAhead()]) {
      const strangers = Array.from({ length: 4 }, open);
      expect(strangers.filter((holder) => budget.grow(holder, SMALL_BYTES))).toHaveLength(2);
    }
  });

  test('all clients together hold the budget at most', () => {
    const { budget } = setUp();
    const all = Array.from({ length: 40 }, (_, i) => budget.open(`client ${i}`));
    expect(all.filter((holder) => budget.grow(holder, SMALL_BYTES))).toHaveLength(16);
  });

  test('the only holder is never refused, however much it needs', () => {
    const { budget } = setUp();
    const only = budget.open('a');
    expect(budget.grow(only, 3 * BYTES)).toBe(true);
    expect(budget.grow(only, BYTES)).toBe(true);
    expect(budget.grow(budget.open('b'), 1)).toBe(false);
    budget.settle(only, 0);
    expect(budget.held).toBe(0);
    expect(budget.grow(budget.open('b'), 1)).toBe(true);
  });

  test('what is counted beside holders leaves less to them', () => {
    const { budget } = setUp();
    budget.count(BYTES - 10);
    expect(budget.grow(budget.open('a'), 11)).toBe(false);
    expect(budget.grow(budget.open('a'), 10)).toBe(true);
    budget.count(10 - BYTES);
    expect(budget.held).toBe(10);
  });
});

describe('holders that wait for their callers', () => {
  const tick = (budget: ByteBudget, count: number) => {
    for (let i = 0; i < count; i++) budget.tick();
  };

  test('are cut off when the budget is short, the longest wait first, and no more than it takes', () => {
    const { budget, cut, cuts, waiting } = setUp();
    const holders = Array.from({ length: 16 }, (_, i) => waiting(`client ${i % 2}`, SMALL_BYTES));
    tick(budget, STALLED_AFTER_TICKS);
    expect(budget.grow(budget.open('c'), 100)).toBe(true);
    expect(cut).toEqual([holders[0]]);
    expect(cuts()).toBe(1);
    expect(holders[0]!.bytes).toBe(0);
    expect(budget.held).toBe(15 * SMALL_BYTES + 100);
  });

  test('are cut off of the same client when that has too much', () => {
    const { budget, cut, waiting } = setUp();
    const other = waiting('a', SMALL_BYTES);
    const holders = Array.from({ length: 8 }, () => waiting('b', SMALL_BYTES));
    tick(budget, STALLED_AFTER_TICKS);
    expect(budget.grow(budget.open('b'), 1)).toBe(true);
    expect(cut).toEqual([holders[0]]);
    expect(other.bytes).toBe(SMALL_BYTES);
  });

  test('are kept while there is room, however long they wait', () => {
    const { budget, cut, waiting } = setUp();
    waiting('a', SMALL_BYTES);
    tick(budget, 1_000);
    expect(budget.grow(budget.open('a'), SMALL_BYTES)).toBe(true);
    expect(cut).toEqual([]);
  });

  test('are kept while their callers do something: then the new one is refused', () => {
    const { budget, cut, waiting } = setUp();
    const holders = Array.from({ length: 8 }, () => waiting('a', SMALL_BYTES));
    tick(budget, 5);
    for (const holder of holders) budget.move(holder);
    tick(budget, STALLED_AFTER_TICKS - 1);
    expect(budget.grow(budget.open('a'), 1)).toBe(false);
    expect(cut).toEqual([]);
    budget.move(holders[0]!);
    tick(budget, 1);
    expect(budget.grow(budget.open('a'), 1)).toBe(true);
    expect(cut).toEqual([holders[1]]);
  });

  test('are kept once they go on, and one never cuts itself off', () => {
    const { budget, cut, waiting } = setUp();
    const holders = Array.from({ length: 8 }, () => waiting('a', SMALL_BYTES));
    for (const holder of holders.slice(1, 4)) budget.goOn(holder);
    for (const holder of holders.slice(4)) budget.settle(holder, SMALL_BYTES);
    tick(budget, 1_000);
    expect(budget.grow(holders[0]!, 1)).toBe(false);
    expect(cut).toEqual([]);
  });
});

test('any holders: what is held is what they hold together, and within the budget', () => {
  const step = fc.record({
    holder: fc.nat({ max: 9 }),
    bytes: fc.nat({ max: 3 * SMALL_BYTES }),
    action: fc.constantFrom('grow', 'wait', 'move', 'settle', 'goOn'),
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
        if (action === 'grow') budget.grow(holder, bytes);
        else if (action === 'wait') budget.wait(holder, () => {});
        else if (action === 'move') budget.move(holder);
        else if (action === 'settle') budget.settle(holder, Math.min(bytes, holder.bytes));
        else budget.goOn(holder);
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
