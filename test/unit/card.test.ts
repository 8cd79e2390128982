import fc from 'fast-check';
import { expect, test } from 'vitest';
import { looksLikeCard } from '../../src/shape/card.ts';

const digit = fc.constantFrom(...'0123456789');

function digits(min: number, max: number): fc.Arbitrary<string> {
  return fc.string({ unit: digit, minLength: min, maxLength: max });
}

/** Appends the check digit, by the table of doubled digits. */
function withCheckDigit(body: string): string {
  const doubled = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9];
  const sum = [...body]
    .reverse()
    .reduce((total, c, i) => total + (i % 2 === 0 ? doubled[Number(c)]! : Number(c)), 0);
  return body + ((10 - (sum % 10)) % 10);
}

test.each(['4111-1111-1111-1111', 'room 7: 4111 1111 1111 1111', '41111111/11111111'])(
  '%s is a card number',
  (text) => {
    expect(looksLikeCard(text)).toBe(true);
  },
);

test('12 to 19 digits are a card number with the valid check digit, and with no other', () => {
  fc.assert(
    fc.property(digits(11, 18), fc.integer({ min: 1, max: 9 }), (body, off) => {
      const valid = withCheckDigit(body);
      expect(looksLikeCard(valid)).toBe(true);
      expect(looksLikeCard(body + ((Number(valid.at(-1)) + off) % 10))).toBe(false);
    }),
  );
});

test('a row of digits, groups with one separator, or all digits of a text are a card number, and nothing else', () => {
  const part = fc.oneof(digits(1, 12), digits(10, 19).map(withCheckDigit));
  const between = fc.constantFrom('', ' ', '-', '. ', 'x', ',');
  const texts = fc.array(fc.tuple(between, part), { minLength: 1, maxLength: 4 });
  const isCard = (text: string) =>
    /^\d{12,19}$/.test(text) && withCheckDigit(text.slice(0, -1)) === text;
  fc.assert(
    fc.property(texts, (all) => {
      const text = all.flat().join('');
      const parts = [/\d+/g, /\d+(?:[ .-]\d+)*/g, /.+/g].flatMap((one) => text.match(one)!);
      const is = parts.some((one) => isCard(one.replace(/\D/g, '')));
      expect(looksLikeCard(text), text).toBe(is);
    }),
    { numRuns: 5_000 },
  );
});
