import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isApiKey, newApiKey, randomHex } from '../../src/crypto/api-key.ts';

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

test('at least 160 random bits: every base62 digit is equally likely in each of 28 places', () => {
  expect(28 * Math.log2(62)).toBeGreaterThan(160);
  const keys = Array.from({ length: 20_000 }, newApiKey);
  expect(new Set(keys).size).toBe(keys.length);
  const counts = new Map<string, number>();
  for (let place = 4; place < 32; place++) {
    const digits = keys.map((apiKey) => apiKey.charAt(place));
    expect(new Set(digits).size).toBe(62);
    for (const digit of digits) counts.set(digit, (counts.get(digit) ?? 0) + 1);
  }
  // Eight standard deviations: once in 10^13 runs. Bytes modulo 62 without rejection are twenty off.
  const expected = (keys.length * 28) / 62;
  for (const n of counts.values()) {
    expect(Math.abs(n - expected)).toBeLessThan(8 * Math.sqrt(expected));
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

test('random hex has two digits a byte and does not repeat', () => {
  const names = Array.from({ length: 1_000 }, () => randomHex(12));
  expect(names.every((name) => /^[0-9a-f]{24}$/.test(name))).toBe(true);
  expect(new Set(names).size).toBe(1_000);
});
