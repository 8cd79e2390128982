import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Keyring } from '../../src/crypto/keyring.ts';
import { importKey } from '../../src/crypto/primitives.ts';
import { scopeOf, spaceBytes } from '../../src/crypto/scope.ts';
import { KEY_PURPOSES, type Token, type Value } from '../../src/types.ts';
import { testKey, testKeyId, testKeyring, testKeys } from '../support/keys.ts';

const keyring = testKeyring();
const VALUE = 'Zoë 😀' as Value;

/** What they are made of is in test/vectors. */
test('a random fingerprint says nothing of the value: 16 fresh bytes; so do the draws', () => {
  const drawn = Array.from({ length: 2_000 }, () => keyring.randomDraws());
  const fingerprints = drawn.map((one) => one.value_fingerprint);
  expect(fingerprints.every((fingerprint) => fingerprint.length === 16)).toBe(true);
  expect(new Set(fingerprints).size).toBe(2_000);
  expect(new Set(drawn.map(({ draws }) => draws(0, 0))).size).toBe(2_000);
});

test('no two texts of any spaces share a fingerprint, whatever bytes a caller sends', () => {
  // Bytes that prefixes are made of, so that texts often look like them.
  const unit = fc.constantFrom('\u0000', '\u0001', '\u0002', '\u0003', '\u0080', 'a', 'b');
  const text = fc.string({ unit, maxLength: 8 });
  const space = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 3 });
  const fingerprints = (spaceName: string, token: string) =>
    keyring.tokenFingerprint(token as Token, spaceBytes(spaceName));
  fc.assert(
    fc.property(space, text, space, text, (one, first, two, second) => {
      fc.pre(one !== two || first !== second);
      expect(fingerprints(one, first)).not.toBe(fingerprints(two, second));
      // The message of one, sent by a caller of the other.
      const message = String.fromCharCode(...spaceBytes(one)) + first;
      fc.pre(one !== two || message !== first);
      expect(fingerprints(two, message)).not.toBe(fingerprints(one, first));
      const escaped = `\u0002${message}`;
      expect(fingerprints(two, escaped)).not.toBe(fingerprints(one, first));
      expect(fingerprints('', escaped)).not.toBe(fingerprints('', message));
    }),
    { numRuns: 5_000 },
  );
});

test('C11: a record opens under no other key version, though the key of that one is the same', () => {
  const same = (version: number) => ({
    ...{ id: testKeyId(version), purpose: 'dek' as const },
    ...{ version, bytes: testKey('dek 1') },
  });
  const others = testKeys().filter((key) => key.purpose !== 'dek');
  const both = new Keyring([same(1), same(2), ...others]);
  const { value_fingerprint: valueFingerprint } = both.deterministicDraws(VALUE);
  const record = both.seal(VALUE, both.tokenFingerprint('abcde_tok' as Token), valueFingerprint);
  expect(both.open(record)).toEqual({ value: VALUE });
  expect(record.key_version).toBe(2);
  expect(both.open({ ...record, key_version: 1 })).toEqual({ failure: 'damaged' });
});

describe('keys', () => {
  test.each(KEY_PURPOSES)('a keyring without its %s key is refused', (purpose) => {
    const keys = testKeys().filter((key) => key.purpose !== purpose);
    expect(() => new Keyring(keys)).toThrow(new RegExp(purpose));
  });

  test.each(['fingerprint', 'token', 'api-key'])('a second %s key is refused', (purpose) => {
    const second = testKeys().filter((key) => key.purpose === purpose);
    expect(() => new Keyring([...testKeys(), ...second])).toThrow(RangeError);
  });

  test.each([0, 31, 33])('a key of %i bytes is refused', (bytes) => {
    expect(() => importKey(Buffer.alloc(bytes))).toThrow(RangeError);
  });

  test('the primary is the highest DEK version, in whatever order they come', () => {
    expect(testKeyring([2, 10, 9]).primaryVersion).toBe(10);
  });

  test('renewed, it seals with the new primary, opens what it can, and has forgotten what was retired', () => {
    const renewed = testKeyring([1, 2]);
    const { value_fingerprint: valueFingerprint } = renewed.deterministicDraws(VALUE);
    const tokenFingerprint = renewed.tokenFingerprint('abc_tok' as Token);
    const old = testKeyring([1]).seal(VALUE, tokenFingerprint, valueFingerprint);
    expect(renewed.open(old)).toEqual({ value: VALUE });
    renewed.renew(testKeys([2, 3]));
    expect([1, 2, 3].map((version) => renewed.hasVersion(version))).toEqual([false, true, true]);
    expect(renewed.open(old)).toEqual({ failure: 'key_missing' });
    const fresh = renewed.seal(VALUE, tokenFingerprint, valueFingerprint);
    expect(fresh.key_version).toBe(3);
    expect(testKeyring([3]).open(fresh)).toEqual({ value: VALUE });
    expect(() => renewed.renew([])).toThrow(/dek/);
    expect(renewed.primaryVersion).toBe(3);
  });

  test('a key that comes back as another under its version is taken as it is now', () => {
    const renewed = testKeyring([1]);
    const fingerprint = renewed.tokenFingerprint('abc_tok' as Token);
    const { value_fingerprint: valueFingerprint } = renewed.deterministicDraws(VALUE);
    const old = renewed.seal(VALUE, fingerprint, valueFingerprint);
    const others = testKeys([1]).map((key) =>
      key.purpose === 'dek' ? { ...key, bytes: testKey('another') } : key,
    );
    renewed.renew(others);
    expect(renewed.open(old)).toEqual({ failure: 'damaged' });
  });
});

test('draws of two scopes have nothing in common, and the default scope has those of before', () => {
  const scopes = [undefined, scopeOf('card', ''), scopeOf('text', 'card'), scopeOf('card', 'text')];
  const firsts = scopes.map((scope) => keyring.deterministicDraws(VALUE, scope).draws(0, 0));
  expect(new Set(firsts).size).toBe(scopes.length);
  expect(scopeOf('text', '')).toBeUndefined();
  expect(() => scopeOf('a card', '')).toThrow(RangeError);
  // A longer name of a space does not become the beginning of a kind, or of a value.
  const cut = keyring.deterministicDraws('dcard' as Value, scopeOf('a', 'bc')).draws(0, 0);
  const moved = keyring.deterministicDraws('card' as Value, scopeOf('ad', 'bc')).draws(0, 0);
  expect(moved).not.toBe(cut);
});

test('a record of a scope opens with it, whatever was opened before', () => {
  const token = 'abcde_tok' as Token;
  const { value_fingerprint: valueFingerprint } = keyring.deterministicDraws(VALUE);
  for (const scope of [scopeOf('card', 'tenant'), undefined, scopeOf('mail', ''), undefined]) {
    const fingerprint = keyring.tokenFingerprint(token, scope?.spaceBytes);
    const record = keyring.seal(VALUE, fingerprint, valueFingerprint, scope);
    expect(keyring.open(record)).toEqual({ value: VALUE, scope });
  }
});
