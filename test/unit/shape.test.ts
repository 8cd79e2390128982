import fc from 'fast-check';
import { expect, test } from 'vitest';
import { grow, olderShapeOf, shapeOf } from '../../src/shape/shape.ts';

/** Any well-formed string, often with what the rules single out. */
const values = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.string({ unit: fc.constantFrom(...'aZ7 @.-é😀\0\t\u00a0') }),
);

/** How many stems fit a shape. */
function stems(shape: string): number {
  return [...shape].reduce((n, c) => n * (c === 'a' ? 26 : c === '0' ? 10 : 1), 1);
}

// As the program of commit e0c8a12 made them.
test.each([
  ['ann\tlee bo', 'aaaaaaa aa'],
  ['ann\u00a0lee\u3000bo', 'aaaaaaaaaa'],
  ['\tab cd ', 'aaa aaa'],
  ['ann lee@example.com', 'aaaaaaa@aaaaaaa.aaa'],
  ['ann\tlee@example.com', 'aaaaaaa@aaaaaaa.aaa'],
  ['@ ann.lee 12', '@ aaa.aaa 00'],
])('the older shape of %j is %s', (value, shape) => {
  expect(olderShapeOf(value)).toBe(shape);
});

test('a value without tab, Unicode space and e-mail with spaces has always had its shape', () => {
  const usual = values.filter((value) => !/[^\S ]|@/.test(value));
  fc.assert(fc.property(usual, (value) => olderShapeOf(value) === shapeOf(value)));
});

const PUNCTUATION = '!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~';
const long = (count: number, one = 'x') => one.repeat(count);
test.each([
  ['every ASCII punctuation mark stays', `azAZé${PUNCTUATION}09`, `aaaaa${PUNCTUATION}00`],
  ['a line end or control becomes a letter', 'a\r\n\u2028\u001f\u007f', 'aaaaaa'],
  ['its parts are as long as the original in characters', 'añ😀@é.com', 'aaa@a.aaa'],
  ['no e-mail: a space', 'write to an1@ex.com', 'aaaaa aa aa0@aa.aaa'],
  ['no e-mail: a tab', 'an1@e\tx.com', 'aa0@a a.aaa'],
  ['no e-mail: a no-break space', 'an1@e\u00a0x.com', 'aa0@a a.aaa'],
  ['no e-mail: no dot in the domain', 'a.n1@excom', 'a.a0@aaaaa'],
  ['no e-mail: nothing before the @', '@ex1.com', '@aa0.aaa'],
  ['no e-mail: nothing between @ and dot', 'ann1@.com', 'aaa0@.aaa'],
  ['no e-mail: nothing after the dot', 'ann1@ex.', 'aaa0@aa.'],
  ['no e-mail: a dot beyond 256 characters', `1@${long(254)}.com`, `0@${long(254, 'a')}`],
  ['four letters are too few, five are enough', 'abcd', 'aaaaa'],
  ['five letters stay', 'abcde', 'aaaaa'],
  ['five digits are too few, six are enough', '12345', '000000'],
  ['six digits stay', '123456', '000000'],
  ['the last drawn run grows', 'ab-12!', 'aa-0000!'],
  ['and keeps what follows it', '(1)', '(000000)'],
  ['no more than needed', 'abc1', 'aaa00'],
  ['only 256 characters shape the stem', `${long(256)}1-1`, long(256, 'a')],
  ['the 256th does', `${long(255)}1-1`, `${long(255, 'a')}0`],
  ['they are code points: no emoji is split', long(256, '😀'), long(256, 'a')],
  ['after emojis the 256th counts', `${long(255, '😀')}1-`, `${long(255, 'a')}0`],
  ['also if it stays', `${long(255, '😀')}-1`, `${long(255, 'a')}-`],
  ['a space is an edge where the cut makes it one', `${long(255)} tail`, long(256, 'a')],
])('%s', (_, value, shape) => {
  expect(shapeOf(value)).toBe(shape);
});

test('a shape that grows makes the stem of any value longer by exactly so many drawn characters', () => {
  fc.assert(
    fc.property(values, fc.integer({ min: 1, max: 7 }), (value, extra) => {
      const shape = shapeOf(value);
      const grown = grow(shape, extra);
      expect(grown.length).toBe(shape.length + extra);
      expect(stems(grown)).toBeGreaterThan(stems(shape));
    }),
  );
});

test('a shape has a space for a tab and for every space of Unicode, for nothing else', () => {
  const units = Array.from({ length: 0x1_0000 }, (_, unit) => String.fromCharCode(unit));
  const spaces = units.filter((unit) => shapeOf(`abcde${unit}f`).includes(' '));
  expect(spaces).toEqual(units.filter((unit) => /[\t\p{Zs}]/u.test(unit)));
  expect(spaces.length).toBe(18);
});
