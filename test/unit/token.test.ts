import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { looksLikeCard } from '../../src/shape/card.ts';
import { drawStem } from '../../src/shape/stem.ts';
import { DRAWS_A_LENGTH, drawToken, MAX_DRAWS } from '../../src/shape/token.ts';
import type { Value } from '../../src/types.ts';

const bytes = (...codes: number[]) => String.fromCharCode(...codes);
const counted = Array.from({ length: 256 }, (_, code) => code);

describe('stems', () => {
  test('every letter comes from nine bytes, every digit from twenty-five: unbiased', () => {
    const letters = drawStem('a'.repeat(234), () => bytes(...counted));
    const digits = drawStem('0'.repeat(250), () => bytes(...counted));
    const times = (text: string) => {
      const all = new Map<string, number>();
      for (const one of text) all.set(one, (all.get(one) ?? 0) + 1);
      return all;
    };
    expect([...times(letters)]).toHaveLength(26);
    expect(new Set(times(letters).values())).toEqual(new Set([9]));
    expect([...times(digits)]).toHaveLength(10);
    expect(new Set(times(digits).values())).toEqual(new Set([25]));
  });
  test('bytes from 234 (letters) and from 250 (digits) are thrown away', () => {
    expect(drawStem('a', () => bytes(234, 255, 1))).toBe('b');
    expect(drawStem('0', () => bytes(250, 255, 249))).toBe('9');
    expect(drawStem('0', () => bytes(234))).toBe('4');
  });
  test('blocks are used up one after the other', () => {
    expect(drawStem('aaa-0', (block) => bytes(block, 255))).toBe('abc-3');
  });
});

describe('card-like texts', () => {
  test.each([
    '4111111111111111',
    '4111 1111 1111 1111',
    '4111-1111-1111-1111',
    '378282246310005',
    'x6304000000000000',
    'no 4222.2222.2222.2 here',
    '41111111 and 11111111',
  ])('%s', (text) => expect(looksLikeCard(text)).toBe(true));
  test.each(['4111111111111112', '79927398713', 'abc', '', '0'.repeat(20)])('not %s', (text) =>
    expect(looksLikeCard(text)).toBe(false),
  );
});

describe('tokens', () => {
  /** The stream of each draw is a run of one byte: its number. */
  const numbered = (draw: number) => bytes(draw).repeat(64);
  const token = (value: string, from = 0) => drawToken(value as Value, 'tok', numbered, from);

  test('are a stem and the suffix', () => {
    expect(token('Ann Lee')).toEqual({ token: 'aaa aaa_tok', draw: 0 });
  });
  test('are never the value, nor is their stem', () => {
    expect(token('aaaaaaa')).toEqual({ token: 'bbbbbbb_tok', draw: 1 });
    expect(token('aaaaa_aaa')!.token).toBe('bbbbb_bbb_tok');
  });
  test('grow by a character after every eight draws', () => {
    const lengths = [0, 7, 8, 15, 16, 63].map((from) => token('Ann Lee', from)!.token.length);
    expect(lengths).toEqual([11, 11, 12, 12, 13, 11 + 63 / DRAWS_A_LENGTH - 7 / 8]);
  });
  test('run out after the last draw', () => {
    expect(token('Ann Lee', MAX_DRAWS - 1)).toBeDefined();
    expect(token('Ann Lee', MAX_DRAWS)).toBeUndefined();
  });
  test('never look like a card number, whatever is drawn', () => {
    const streams = fc.infiniteStream(fc.integer({ min: 0, max: 249 }));
    fc.assert(
      fc.property(
        fc.stringMatching(/^[0-9]{4}([ -]?[0-9]{4}){2,3}[0-9]{0,3}$/),
        streams,
        (value, stream) => {
          const draws = () => bytes(...[...stream.take(64)]);
          const drawn = drawToken(value as Value, 'tok', draws, 0);
          return drawn === undefined || !looksLikeCard(drawn.token);
        },
      ),
      { numRuns: 2_000 },
    );
  });
});
