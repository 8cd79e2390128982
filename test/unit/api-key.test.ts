import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isApiKey, newApiKey } from '../../src/crypto/api-key.ts';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** CRC-32 (ISO 3309), bit by bit. */
function crc32(text: string): number {
  let crc = 0xffffffff;
  for (const byte of Buffer.from(text)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

test('an API key is stk_, 28 random base62 digits, and the CRC-32 of what is before in 6 of them', () => {
  for (let i = 0; i < 1_000; i++) {
    const apiKey = newApiKey();
    expect(apiKey).toMatch(/^stk_[0-9A-Za-z]{34}$/);
    expect(isApiKey(apiKey)).toBe(true);
    const check = [...apiKey.slice(-6)].reduce((sum, c) => sum * 62 + BASE62.indexOf(c), 0);
    expect(check).toBe(crc32(apiKey.slice(0, -6)));
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
