import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  ByteBudget,
  type Holder,
  SMALL_BYTES,
  STALLED_AFTER_MS,
} from '../../src/service/limits/byte-budget.ts';

const BYTES = 16 * SMALL_BYTES;

function setUp() {
  const cut: Holder[] = [];
  let cuts = 0;
  const budget = new ByteBudget(BYTES, () => {
    cuts++;
  });
  /** A holder that waits for its caller since then. */
  const waiting = (client_id: string, bytes: number, since_ms: number): Holder => {
    const holder = budget.open(client_id);
    expect(budget.grow(holder, bytes, since_ms)).toBe(true);
    budget.wait(holder, since_ms, () => cut.push(holder));
    return holder;
  };
  return { budget, cut, cuts: () => cuts, waiting };
}

describe('shares', () => {
  test('a client holds half of the budget at most, and leaves the rest to others', () => {
    const { budget } = setUp();
    const all = Array.from({ length: 16 }, () => budget.open('a'));
    const granted = all.filter((holder) => budget.grow(holder, SMALL_BYTES, 0));
    expect(granted).toHaveLength(8);
    expect(budget.grow(budget.open('b'), SMALL_BYTES, 0)).toBe(true);
    expect(budget.held).toBe(9 * SMALL_BYTES);
  });

  test('large holders leave a quarter free for small ones', () => {
    const { budget } = setUp();
    const large = Array.from({ length: 8 }, () => budget.open('a'));
    expect(large.filter((holder) => budget.grow(holder, 2 * SMALL_BYTES, 0))).toHaveLength(3);
    expect(budget.grow(budget.open('a'), SMALL_BYTES, 0)).toBe(true);
    expect(budget.grow(budget.open('a'), SMALL_BYTES, 0)).toBe(true);
    expect(budget.grow(budget.open('a'), 1, 0)).toBe(false);
  });

  test('those whose client is not known have an eighth together', () => {
    const { budget } = setUp();
    const strangers = Array.from({ length: 4 }, () => budget.open(undefined));
    expect(strangers.filter((holder) => budget.grow(holder, SMALL_BYTES, 0))).toHaveLength(2);
  });

  test('all clients together hold the budget at most', () => {
    const { budget } = setUp();
    const all = Array.from({ length: 40 }, (_, i) => budget.open(`client ${i}`));
    expect(all.filter((holder) => budget.grow(holder, SMALL_BYTES, 0))).toHaveLength(16);
  });

  test('the only holder is never refused, however much it needs', () => {
    const { budget } = setUp();
    const only = budget.open('a');
    expect(budget.grow(only, 3 * BYTES, 0)).toBe(true);
    expect(budget.grow(only, BYTES, 0)).toBe(true);
    expect(budget.grow(budget.open('b'), 1, 0)).toBe(false);
    budget.settle(only, 0);
    expect(budget.held).toBe(0);
    expect(budget.grow(budget.open('b'), 1, 0)).toBe(true);
  });

  test('what is counted beside holders leaves less to them', () => {
    const { budget } = setUp();
    budget.count(BYTES - 10);
    expect(budget.grow(budget.open('a'), 11, 0)).toBe(false);
    expect(budget.grow(budget.open('a'), 10, 0)).toBe(true);
    budget.count(10 - BYTES);
    expect(budget.held).toBe(10);
  });
});

describe('holders that wait for their callers', () => {
  test('are cut off when the budget is short, the longest wait first, and no more than it takes', () => {
    const { budget, cut, cuts, waiting } = setUp();
    const holders = Array.from({ length: 16 }, (_, i) =>
      waiting(`client ${i % 2}`, SMALL_BYTES, 16 - i),
    );
    const now_ms = 16 + STALLED_AFTER_MS;
    expect(budget.grow(budget.open('c'), 100, now_ms)).toBe(true);
    expect(cut).toEqual([holders[0]]);
    expect(cuts()).toBe(1);
    expect(holders[0]!.bytes).toBe(0);
    expect(budget.held).toBe(15 * SMALL_BYTES + 100);
  });

  test('are kept while there is room, however long they wait', () => {
    const { budget, cut, waiting } = setUp();
    waiting('a', SMALL_BYTES, 0);
    expect(budget.grow(budget.open('a'), SMALL_BYTES, 1e9)).toBe(true);
    expect(cut).toEqual([]);
  });

  test('are kept while their callers do something: then the new one is refused', () => {
    const { budget, cut, waiting } = setUp();
    const holders = Array.from({ length: 8 }, () => waiting('a', SMALL_BYTES, 0));
    for (const holder of holders) budget.move(holder, 500);
    expect(budget.grow(budget.open('a'), 1, 500 + STALLED_AFTER_MS - 1)).toBe(false);
    expect(cut).toEqual([]);
    budget.move(holders[0]!, 600);
    expect(budget.grow(budget.open('a'), 1, 500 + STALLED_AFTER_MS)).toBe(true);
    expect(cut).toEqual([holders[1]]);
  });

  test('are kept once they go on, and one never cuts itself off', () => {
    const { budget, cut, waiting } = setUp();
    const holders = Array.from({ length: 8 }, () => waiting('a', SMALL_BYTES, 0));
    for (const holder of holders.slice(1)) budget.goOn(holder);
    expect(budget.grow(holders[0]!, 1, 1e9)).toBe(false);
    expect(cut).toEqual([]);
  });
});

test('any holders: what is held is what they hold together, and within the budget', () => {
  const step = fc.record({
    holder: fc.nat({ max: 9 }),
    bytes: fc.nat({ max: 3 * SMALL_BYTES }),
    action: fc.constantFrom('grow', 'wait', 'move', 'settle', 'goOn'),
    passed_ms: fc.nat({ max: STALLED_AFTER_MS }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
      const { budget } = setUp();
      const holders = Array.from({ length: 10 }, (_, i) =>
        budget.open(i === 0 ? undefined : `client ${i % 3}`),
      );
      let now_ms = 0;
      for (const { holder: index, bytes, action, passed_ms } of steps) {
        now_ms += passed_ms;
        const holder = holders[index]!;
        if (action === 'grow') budget.grow(holder, bytes, now_ms);
        else if (action === 'wait') budget.wait(holder, now_ms, () => {});
        else if (action === 'move') budget.move(holder, now_ms);
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
