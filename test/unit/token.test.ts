import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { looksLikeCard } from '../../src/shape/card.ts';
import { drawToken } from '../../src/shape/kind.ts';
import { shapeOf } from '../../src/shape/shape.ts';
import { DRAWS_A_LENGTH, type DrawBits, drawStem, MAX_DRAWS } from '../../src/shape/token.ts';
import type { Value } from '../../src/types.ts';
import { bytesThatDraw, seededBytes, seededDraws } from '../support/keys.ts';

/** Draw 0 makes this text, draw 1 the next and so on, the last again and again. */
function drawing(...texts: string[]): DrawBits {
  return (draw) => bytesThatDraw(texts[Math.min(draw, texts.length - 1)]!);
}

function draw(value: string, draws: DrawBits, from = 0) {
  return drawToken(value as Value, 'tok', draws, from);
}

test('a token is stem, underscore and suffix', () => {
  const draws = drawing('cat dog');
  expect(drawToken('Ann Lee' as Value, 'sfx', draws, 0)).toEqual({ token: 'cat dog_sfx', draw: 0 });
});

test('every token has the shape of its value, is printable ASCII and survives trimming', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 300 }), fc.string(), (value, seed) => {
      const { token, draw: number } = draw(value, seededDraws(seed))!;
      fc.pre(number < DRAWS_A_LENGTH);
      const stem = token.slice(0, -'_tok'.length);
      expect(stem.replace(/[a-z]/g, 'a').replace(/\d/g, '0')).toBe(shapeOf(value));
      expect(token).toMatch(/^[ -~]+_tok$/);
      expect(token.trim()).toBe(token);
    }),
  );
});

test.each([
  ['hello', ['hello', 'hello', 'jelly'], 2],
  // Only a value that is longer than its stem can be the whole token.
  [`${'b'.repeat(256)}_tok`, ['b'.repeat(256), 'c'.repeat(256)], 1],
])('a token is never the value itself: %s', (value, stems, last) => {
  const token = `${stems.at(-1)}_tok`;
  expect(draw(value, drawing(...stems))).toEqual({ token, draw: last });
});

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

  test('for any draws of any value of digits', () => {
    const digits = fc.string({ unit: fc.constantFrom(...'0123456789 -'), maxLength: 24 });
    fc.assert(
      fc.property(digits, fc.string(), (value, seed) => {
        expect(looksLikeCard(draw(value, seededDraws(seed))!.token)).toBe(false);
      }),
      { numRuns: 500 },
    );
  });
});

describe('collisions', () => {
  test('a later draw starts where it is told', () => {
    const draws = drawing('aaaaa', 'bbbbb', 'ccccc');
    expect(draw('hello', draws, 1)).toEqual({ token: 'bbbbb_tok', draw: 1 });
  });

  test('each 8 draws the stem grows by one character', () => {
    const lengths = Array.from(
      { length: MAX_DRAWS },
      (_, from) => draw('hello', seededDraws('growth'), from)!.token.length - '_tok'.length,
    );
    expect(lengths).toEqual(lengths.map((_, from) => 5 + Math.floor(from / 8)));
  });

  test('64 draws are the last: then there is no token', () => {
    expect(draw('hello', seededDraws('last'), 63)).toMatchObject({ draw: 63 });
    expect(draw('hello', seededDraws('last'), 64)).toBeUndefined();
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

  test('each of the 26 one-letter values can hold a token of its own', () => {
    // The floor: 26^5 stems, however short the value.
    const tokens = [...'abcdefghijklmnopqrstuvwxyz'].map(
      (letter) => draw(letter, seededDraws(letter))!.token,
    );
    expect(new Set(tokens).size).toBe(26);
    expect(tokens.every((token) => /^[a-z]{5}_tok$/.test(token))).toBe(true);
  });
});

const ALL_BYTES = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)).toString('latin1');

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
