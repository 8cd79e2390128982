import fc from 'fast-check';
import { expect, test } from 'vitest';
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

test('an API key is stk_, 28 random base62 digits and their CRC-32 in base 62', () => {
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
  for (const n of counts.values())
    expect(Math.abs(n - expected)).toBeLessThan(8 * Math.sqrt(expected));
});

test('an API key with one other character, or two neighbours swapped, is none', () => {
  for (let i = 0; i < 20; i++) {
    const apiKey = newApiKey();
    for (let place = 0; place < apiKey.length; place++) {
      const [before, one, other = '', after] = [
        ...[apiKey.slice(0, place), apiKey[place], apiKey[place + 1], apiKey.slice(place + 2)],
      ];
      const others = [...`${BASE62}_- \n`].filter((character) => character !== one);
      const typos = others.map((character) => before + character + other + after);
      if (one !== other) typos.push(`${before}${other}${one}${after}`);
      expect(typos.filter((typo) => typo !== apiKey && isApiKey(typo))).toEqual([]);
    }
  }
});

test.each([
  ['the last character lost', (apiKey: string) => apiKey.slice(0, -1)],
  ['the first character lost', (apiKey: string) => apiKey.slice(1)],
  ['a character more', (apiKey: string) => `${apiKey}0`],
  ['a line end pasted with it', (apiKey: string) => `${apiKey}\n`],
  ['a space before it', (apiKey: string) => ` ${apiKey}`],
  ['a no-break space after it', (apiKey: string) => `${apiKey}\u00a0`],
  ['capital letters made small', (apiKey: string) => apiKey.toLowerCase()],
  ['two keys at once', (apiKey: string) => apiKey + apiKey],
])('with %s it is no API key', (_, mistake) => expect(isApiKey(mistake(newApiKey()))).toBe(false));

test('no other string is an API key', () => {
  const digit = fc.constantFrom(...BASE62);
  const lookAlike = fc.string({ unit: digit, minLength: 34, maxLength: 34 });
  const text = fc.oneof(
    fc.string(),
    lookAlike.map((digits) => `stk_${digits}`),
  );
  const property = fc.property(text, (one) => !isApiKey(one));
  fc.assert(property, { numRuns: 1_000 });
});

test('random hex has two digits a byte and does not repeat', () => {
  const names = Array.from({ length: 1_000 }, () => randomHex(12));
  expect(names.every((name) => /^[0-9a-f]{24}$/.test(name))).toBe(true);
  expect(new Set(names).size).toBe(1_000);
});
