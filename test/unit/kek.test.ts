import { expect, test } from 'vitest';
import { kekOf } from '../../src/crypto/kek.ts';
import { KEY_PURPOSES } from '../../src/types.ts';
import { testKey } from '../support/keys.ts';

const kek = kekOf(testKey('kek'));
const other = kekOf(testKey('another'));
const KEY = testKey('dek');
const wrapped = kek.wrap('dek', 1, KEY);

test('a wrapped key unwraps to the same key, with its KEK, purpose and version only', () => {
  expect(kek.unwrap('dek', 1, wrapped)).toEqual(KEY);
  const opening = KEY_PURPOSES.filter((purpose) => kek.unwrap(purpose, 1, wrapped) !== undefined);
  expect(opening).toEqual(['dek']);
  for (const version of [0, 2, 10, 11]) expect(kek.unwrap('dek', version, wrapped)).toBeUndefined();
  expect(other.unwrap('dek', 1, wrapped)).toBeUndefined();
});

test('a wrapped key does not show the key', () => {
  expect(wrapped.includes(KEY)).toBe(false);
  expect(wrapped).toHaveLength(12 + 32 + 16);
});

test('a wrapped key does not unwrap with any one bit changed', () => {
  for (let bit = 0; bit < wrapped.length * 8; bit++) {
    const changed = Buffer.from(wrapped);
    changed[bit >> 3]! ^= 1 << (bit & 7);
    expect(kek.unwrap('dek', 1, changed)).toBeUndefined();
  }
});

test('the id names the KEK: 16 hex digits, the same each time, another for another, no part of it', () => {
  expect(kek.id).toMatch(/^[0-9a-f]{16}$/);
  expect(kekOf(testKey('kek')).id).toBe(kek.id);
  expect(other.id).not.toBe(kek.id);
  expect(testKey('kek').toString('hex')).not.toContain(kek.id);
});
