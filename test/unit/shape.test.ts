import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { grow, MIN_STEMS, shapeOf } from '../../src/shape/shape.ts';

/** The rules of docs/tokens.md as pairs of value and shape: `a` a drawn letter, `0` a drawn digit. */
test.each([
  ['letters of any script, and case, are letters', 'Köhler ГОСТ', 'aaaaaa aaaa'],
  ['digits are digits', '4111 1111 1111', '0000 0000 0000'],
  ['ASCII punctuation and inner spaces stay', "O'Neil-Smith, (J.)", "a'aaaa-aaaaa, (a.)"],
  ['other characters are letters', 'naïve\tcafé\n1€', 'aaaaaaaaaaa0a'],
  ['an emoji is one letter', 'hello 😀👍', 'aaaaa aa'],
  ['a combining mark is a letter of its own', 'cafe\u0301 x', 'aaaaa a'],
  ['digits of other scripts are letters', 'room ١٢٣', 'aaaa aaa'],
  ['white space at the edges is letters', '  Ann Lee ', 'aaaaa aaaa'],
  [
    'an e-mail has three runs of letters',
    'ann.lee+1@mail.ex-ample.co',
    'aaaaaaaaa@aaaaaaaaaaaaa.aa',
  ],
  ['two @ are no e-mail', 'a@b@example.com', 'a@a@aaaaaaa.aaa'],
  ['an empty part is no e-mail', '@example.comma', '@aaaaaaa.aaaaa'],
  ['no dot in the domain is no e-mail', 'ann@localhost', 'aaa@aaaaaaaaa'],
  ['few possible stems: the last run grows', 'Bob', 'aaaaa'],
  ['the last run of digits grows', 'A 1', 'a 00000'],
  ['the last run before kept characters grows', '(12)', '(000000)'],
  ['the local part of a short e-mail grows', 'a@b.c', 'aaa@a.a'],
  ['no drawn character: eight letters are added', '---', '---aaaaaaaa'],
  ['nothing at all: eight letters', '', 'aaaaaaaa'],
  ['a space alone is an edge', ' ', 'aaaaa'],
])('%s', (_rule, value, shape) => {
  expect(shapeOf(value)).toBe(shape);
});

test('only the first 256 characters shape the stem, and no pair of halves is split', () => {
  expect(shapeOf('x'.repeat(300))).toBe('a'.repeat(256));
  expect(shapeOf('😀'.repeat(300))).toBe('a'.repeat(256));
  expect(shapeOf(`${'1'.repeat(255)}😀 and more`)).toBe(`${'0'.repeat(255)}a`);
});

describe('for every well-formed text', () => {
  const text = fc.string({ unit: 'binary', maxLength: 300 });

  test('the shape is printable ASCII, without white space at its edges', () => {
    fc.assert(fc.property(text, (value) => /^[!-~]([ -~]*[!-~])?$/.test(shapeOf(value))));
  });
  test('at least a million stems fit', () => {
    fc.assert(
      fc.property(text, (value) => {
        const count = (pattern: RegExp) => shapeOf(value).match(pattern)?.length ?? 0;
        return 26 ** count(/a/g) * 10 ** count(/0/g) >= MIN_STEMS;
      }),
    );
  });
  test('a shape grows by as many drawn characters as asked, and keeps the rest', () => {
    fc.assert(
      fc.property(text, fc.nat(7), (value, extra) => {
        const shape = shapeOf(value);
        const grown = grow(shape, extra);
        const kept = (one: string) => one.replace(/[a0]/g, '');
        return grown.length === shape.length + extra && kept(grown) === kept(shape);
      }),
    );
  });
});
