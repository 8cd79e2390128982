import { expect, test } from 'vitest';
import { drawStem } from '../../src/shape/token.ts';
import { seededBytes } from '../support/keys.ts';

const ALL_BYTES = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)).toString('latin1');

/** The stem that one byte decides, or undefined when the byte is thrown away. */
function drawnFrom(kind: 'a' | '0', byte: number): string | undefined {
  let drawnFromSecondBlock = false;
  const stem = drawStem(kind, (block) => {
    drawnFromSecondBlock = block === 1;
    return block === 0 ? String.fromCharCode(byte) : '\0';
  });
  return drawnFromSecondBlock ? undefined : stem;
}

test.each([
  ['letter', 'a', 26, 234],
  ['digit', '0', 10, 250],
] as const)(
  'every %s comes from equally many bytes; the rest is thrown away',
  (_, kind, n, bound) => {
    const from = Array.from({ length: 256 }, (_, byte) => drawnFrom(kind, byte));
    expect(from.indexOf(undefined)).toBe(bound);
    expect(from.slice(bound).every((drawn) => drawn === undefined)).toBe(true);
    const counts = countEach(from.slice(0, bound).join(''));
    expect([...counts.values()]).toEqual(Array(n).fill(bound / n));
  },
);

test('what is neither a letter nor a digit to draw is kept and takes no byte', () => {
  expect(drawStem('a-0, a@0.a', () => '\x01\x02\x03\x04\x05')).toBe('b-2, d@4.f');
});

test('the next block goes on where the bytes of the last one end', () => {
  const asked: number[] = [];
  const stem = drawStem('aaaaa', (block) => {
    asked.push(block);
    return ['\x00\x01', '\xff\x02', '\x03\x04'][block]!;
  });
  expect(stem).toBe('abcde');
  expect(asked).toEqual([0, 1, 2]);
});

test('blocks without one byte to use are passed over', () => {
  expect(drawStem('a', (block) => (block < 9 ? '\xff\xfe\xea' : '\x19'))).toBe('z');
});

test('all bytes once draw all letters nine times', () => {
  const stem = drawStem('a'.repeat(234), () => ALL_BYTES);
  expect(stem).toBe('abcdefghijklmnopqrstuvwxyz'.repeat(9));
});

test.each([
  ['letters', 'a', 26, 60.1],
  ['digits', '0', 10, 33.7],
])('%s of a million seeded draws are uniform', (_, kind, choices, bound) => {
  // Chi-square with choices - 1 degrees of freedom; the bound is its quantile at p = 0.0001.
  const draws = 1_000_000;
  const shape = kind.repeat(250);
  let drawn = '';
  for (let i = 0; drawn.length < draws; i++) {
    drawn += drawStem(shape, (block) => seededBytes(`uniform ${i} ${block}`, 300));
  }
  const counts = countEach(drawn);
  const expected = draws / choices;
  const chiSquare = [...counts.values()].reduce((sum, n) => sum + (n - expected) ** 2, 0);
  expect(counts.size).toBe(choices);
  expect(chiSquare / expected).toBeLessThan(bound);
});

function countEach(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1);
  return counts;
}
