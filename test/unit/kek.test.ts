import { describe, expect, test } from 'vitest';
import { kekOf } from '../../src/crypto/kek.ts';
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
