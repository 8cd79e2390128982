import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isApiKey, newApiKey } from '../../src/crypto/api-key.ts';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Its check digits are in test/vectors. */
test('a new API key is stk_ and 34 base62 digits, and fits its own check', () => {
  for (let i = 0; i < 1_000; i++) {
    const apiKey = newApiKey();
    expect(apiKey).toMatch(/^stk_[0-9A-Za-z]{34}$/);
    expect(isApiKey(apiKey)).toBe(true);
  }
});

describe('a typo is told apart', () => {
  test('any one character replaced by any other', () => {
    const apiKey = newApiKey();
    for (let place = 0; place < apiKey.length; place++) {
      for (const character of `${BASE62}_- \n`) {
        if (character === apiKey.charAt(place)) continue;
        const typo = apiKey.slice(0, place) + character + apiKey.slice(place + 1);
        expect(isApiKey(typo)).toBe(false);
      }
    }
  });

  test.each([
    ['the last character lost', (apiKey: string) => apiKey.slice(0, -1)],
    ['a character more', (apiKey: string) => `${apiKey}0`],
    ['a line end pasted with it', (apiKey: string) => `${apiKey}\n`],
  ])('%s', (_, mistake) => {
    expect(isApiKey(mistake(newApiKey()))).toBe(false);
  });
});

test('no other string is an API key', () => {
  const lookAlike = fc
    .string({ unit: fc.constantFrom(...BASE62), minLength: 34, maxLength: 34 })
    .map((digits) => `stk_${digits}`);
  fc.assert(
    fc.property(fc.oneof(fc.string(), lookAlike), (text) => {
      expect(isApiKey(text)).toBe(false);
    }),
    { numRuns: 1_000 },
  );
});
