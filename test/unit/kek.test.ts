import { describe, expect, test } from 'vitest';
import { kekOf, parseKek } from '../../src/crypto/kek.ts';
import { KEY_PURPOSES } from '../../src/types.ts';
import { testKey } from '../support/keys.ts';

const kek = kekOf(testKey('kek'));
const KEY = testKey('dek');

describe('a wrapped key', () => {
  const wrapped = kek.wrap('dek', 1, KEY);

  test('unwraps to the same key', () => {
    expect(kek.unwrap('dek', 1, wrapped)).toEqual(KEY);
  });

  test('does not show the key', () => {
    expect(wrapped.includes(KEY)).toBe(false);
    expect(wrapped).toHaveLength(12 + 32 + 16);
  });

  test('is bound to its purpose', () => {
    const opening = KEY_PURPOSES.filter((purpose) => kek.unwrap(purpose, 1, wrapped) !== undefined);
    expect(opening).toEqual(['dek']);
  });

  test('is bound to its version', () => {
    for (const version of [0, 2, 10, 11])
      expect(kek.unwrap('dek', version, wrapped)).toBeUndefined();
  });

  test('does not unwrap with another KEK', () => {
    expect(kekOf(testKey('another')).unwrap('dek', 1, wrapped)).toBeUndefined();
  });

  test('does not unwrap with any one bit changed', () => {
    for (let bit = 0; bit < wrapped.length * 8; bit++) {
      const changed = Buffer.from(wrapped);
      changed[bit >> 3]! ^= 1 << (bit & 7);
      expect(kek.unwrap('dek', 1, changed)).toBeUndefined();
    }
  });
});

test('the id names the KEK: 16 hex digits, the same each time, another for another', () => {
  expect(kek.id).toMatch(/^[0-9a-f]{16}$/);
  expect(kekOf(testKey('kek')).id).toBe(kek.id);
  expect(kekOf(testKey('another')).id).not.toBe(kek.id);
});

test('the id is no part of the KEK', () => {
  expect(testKey('kek').toString('hex')).not.toContain(kek.id);
});

describe('the content of a KEK file', () => {
  const bytes = testKey('kek');
  const hex = bytes.toString('hex');

  test.each([
    ['32 raw bytes', bytes],
    ['64 hex digits', Buffer.from(hex)],
    ['64 capital hex digits', Buffer.from(hex.toUpperCase())],
    ['hex digits and a line end', Buffer.from(`${hex}\n`)],
    ['hex digits and a DOS line end', Buffer.from(`${hex}\r\n`)],
    ['hex digits with white space around', Buffer.from(`\n\t ${hex} \n`)],
  ])('may be %s', (_, content) => {
    expect(parseKek(content)).toEqual(bytes);
  });

  test('may be 32 raw bytes that begin or end in white space', () => {
    const spaced = Buffer.concat([Buffer.from(' \n'), bytes.subarray(0, 28), Buffer.from('\n ')]);
    expect(parseKek(spaced)).toEqual(spaced);
  });

  test.each([
    ['nothing', ''],
    ['31 bytes', 'x'.repeat(31)],
    ['33 bytes', 'x'.repeat(33)],
    ['64 characters that are not all hex digits', `${hex.slice(1)}g`],
    ['63 hex digits', hex.slice(1)],
    ['65 hex digits', `${hex}0`],
    ['hex digits with white space between', `${hex.slice(0, 32)} ${hex.slice(32)}`],
    ['hex digits after 0x', `0x${hex}`],
    ['base64', bytes.toString('base64')],
  ])('may not be %s', (_, content) => {
    expect(parseKek(Buffer.from(content))).toBeUndefined();
  });
});
