import { describe, expect, test } from 'vitest';
import { drawToken } from '../../src/shape/kind.ts';
import { type DrawBits, drawStem } from '../../src/shape/token.ts';
import type { Value } from '../../src/types.ts';
import { bytesThatDraw } from '../support/keys.ts';

/** Draw 0 makes this text, draw 1 the next and so on, the last again and again. */
function drawing(...texts: string[]): DrawBits {
  return (draw) => bytesThatDraw(texts[Math.min(draw, texts.length - 1)]!);
}

function draw(value: string, draws: DrawBits, from = 0) {
  return drawToken(value as Value, 'tok', draws, from);
}

describe('never like a card number', () => {
  test.each([
    ['in a row', '1234567890123456', '4111111111111111', '4111111111111112'],
    ['in groups', '1234 5678 9012 3456', '4111 1111 1111 1111', '4111 1111 1111 1112'],
    ['with words around', 'pan 1234567890123456', 'abc 4111111111111111', 'abc 4111111111111112'],
  ])('%s', (_, value, card, other) => {
    expect(draw(value, drawing(card, card, other))).toEqual({ token: `${other}_tok`, draw: 2 });
  });

  test('with a suffix of digits, which could complete one', () => {
    const draws = drawing('411111111111', '411111111112');
    const drawn = drawToken('123456789012' as Value, '1111', draws, 0);
    expect(drawn).toEqual({ token: '411111111112_1111', draw: 1 });
  });
});

test('64 draws that all look like cards end without a token', () => {
  // Zeros have a valid check digit; twelve of them and seven more are at most 19.
  const asked = new Set<number>();
  const zeros: DrawBits = (draw) => {
    asked.add(draw);
    return '\0'.repeat(48);
  };
  expect(draw('123456789012', zeros)).toBeUndefined();
  expect(asked.size).toBe(64);
});

/** The stem that one byte decides, or undefined when the byte is thrown away. */
function drawnFrom(kind: 'a' | '0', byte: number): string | undefined {
  let last = 0;
  const stem = drawStem(kind, (block) => {
    last = block;
    return block === 0 ? String.fromCharCode(byte) : '\0';
  });
  return last === 1 ? undefined : stem;
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

test('blocks without one byte to use are passed over', () => {
  expect(drawStem('a', (block) => (block < 9 ? '\xff\xfe\xea' : '\x19'))).toBe('z');
});

function countEach(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1);
  return counts;
}
