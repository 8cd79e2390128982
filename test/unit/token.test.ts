import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { looksLikeCard } from '../../src/shape/card.ts';
import { shapeOf } from '../../src/shape/shape.ts';
import { DRAWS_A_LENGTH, type Draws, drawToken, MAX_DRAWS } from '../../src/shape/token.ts';
import type { Value } from '../../src/types.ts';
import { bytesThatDraw, seededDraws } from '../support/keys.ts';

/** Draw 0 makes this text, draw 1 the next and so on, the last again and again. */
function drawing(...texts: string[]): Draws {
  return (draw) => bytesThatDraw(texts[Math.min(draw, texts.length - 1)]!);
}

function draw(value: string, draws: Draws, from = 0) {
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

describe('never the value itself', () => {
  test('as the stem', () => {
    expect(draw('hello', drawing('hello', 'hello', 'jelly'))).toEqual({
      token: 'jelly_tok',
      draw: 2,
    });
  });

  test('as the whole token, which only a value longer than its stem can be', () => {
    const value = `${'b'.repeat(256)}_tok`;
    const draws = drawing('b'.repeat(256), 'c'.repeat(256));
    expect(draw(value, draws)).toEqual({ token: `${'c'.repeat(256)}_tok`, draw: 1 });
  });
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
        const drawn = draw(value, seededDraws(seed));
        expect(drawn).toBeDefined();
        expect(looksLikeCard(drawn!.token)).toBe(false);
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
    const zeros: Draws = (draw) => {
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
