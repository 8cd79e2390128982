import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { isApiKey, newApiKey } from '../../src/crypto/api-key.ts';
import { kekOf, parseKek } from '../../src/crypto/kek.ts';
import { Keyring } from '../../src/crypto/keyring.ts';
import { KEY_PURPOSES, type SealedRecord, type Token, type Value } from '../../src/types.ts';

/** A key that is the same in every run. */
const bytes = (name: string) => createHash('sha256').update(name).digest();
const keys = KEY_PURPOSES.map((purpose) => ({ purpose, version: 1, bytes: bytes(purpose) }));
const keyring = new Keyring(keys);
const value = 'ann@example.com' as Value;
const token = 'qwe@rtyuiop.asd_tok' as Token;

function sealed(): SealedRecord {
  return keyring.seal(value, token, keyring.deterministicDraws(value).value_fingerprint);
}

describe('records', () => {
  test('open with what they were sealed with, and two sealings differ', () => {
    expect(keyring.open(sealed())).toEqual({ value });
    expect(sealed().sealed.equals(sealed().sealed)).toBe(false);
  });
  test('do not open when any bit is another', () => {
    const record = sealed();
    for (let bit = 0; bit < record.sealed.length * 8; bit++) {
      const changed = Buffer.from(record.sealed) as SealedRecord['sealed'];
      changed[bit >> 3]! ^= 1 << (bit & 7);
      expect(keyring.open({ ...record, sealed: changed })).toEqual({ failure: 'damaged' });
    }
  });
  test.each([1, 4, 8, 12, 15, 16, 30])('do not open when %i bytes are missing', (missing) => {
    const record = sealed();
    const cut = record.sealed.subarray(0, -missing) as SealedRecord['sealed'];
    expect(keyring.open({ ...record, sealed: cut })).toEqual({ failure: 'damaged' });
  });
  test('do not open in another place', () => {
    const record = sealed();
    const other = keyring.deterministicDraws('bob' as Value).value_fingerprint;
    const token_fingerprint = keyring.tokenFingerprint('other_tok' as Token);
    expect(keyring.open({ ...record, token_fingerprint })).toEqual({ failure: 'damaged' });
    expect(keyring.open({ ...record, value_fingerprint: other })).toEqual({ failure: 'damaged' });
    expect(keyring.open({ ...record, key_version: 2 })).toEqual({ failure: 'key_missing' });
  });
  test('of an older key version open, new ones have the newest', () => {
    const rotated = new Keyring([...keys, { purpose: 'dek', version: 2, bytes: bytes('second') }]);
    expect(rotated.open(sealed())).toEqual({ value });
    expect(rotated.primary_version).toBe(2);
    expect(rotated.seal(value, token, sealed().value_fingerprint).key_version).toBe(2);
  });
});

describe('draws', () => {
  test('are the same for equal values, and differ for others, draws, blocks and keys', () => {
    const first = keyring.deterministicDraws(value);
    expect(keyring.deterministicDraws(value).draws(3, 1)).toBe(first.draws(3, 1));
    const nfc = keyring.deterministicDraws('é' as Value);
    const nfd = keyring.deterministicDraws('e\u0301' as Value);
    const other_key = keys.map((key) =>
      key.purpose === 'token' ? { ...key, bytes: bytes('x') } : key,
    );
    const all = [
      first.draws(0, 0),
      first.draws(0, 1),
      first.draws(1, 0),
      nfc.draws(0, 0),
      nfd.draws(0, 0),
      new Keyring(other_key).deterministicDraws(value).draws(0, 0),
    ];
    expect(new Set(all).size).toBe(all.length);
    expect(all.every((draw) => draw.length === 48)).toBe(true);
  });
  test('of random mode are fresh each time, and so is the value fingerprint', () => {
    const [a, b] = [keyring.randomDraws(), keyring.randomDraws()];
    expect(a.value_fingerprint).not.toBe(b.value_fingerprint);
    expect(a.draws(0, 0)).not.toBe(a.draws(0, 0));
  });
});

describe('the key-encryption key', () => {
  const kek = kekOf(bytes('kek'));
  test('unwraps what it wrapped, for the same purpose and version only', () => {
    const wrapped = kek.wrap('dek', 1, bytes('dek'));
    expect(kek.unwrap('dek', 1, wrapped)).toEqual(bytes('dek'));
    expect(kek.unwrap('token', 1, wrapped)).toBeUndefined();
    expect(kek.unwrap('dek', 2, wrapped)).toBeUndefined();
    expect(kekOf(bytes('other')).unwrap('dek', 1, wrapped)).toBeUndefined();
    expect(kekOf(bytes('other')).id).not.toBe(kek.id);
  });
  test('is read as 32 bytes or 64 hex digits, and nothing else', () => {
    const hex = bytes('kek').toString('hex');
    expect(parseKek(bytes('kek'))).toEqual(bytes('kek'));
    expect(parseKek(Buffer.from(` ${hex}\n`))).toEqual(bytes('kek'));
    for (const wrong of ['', hex.slice(1), `${hex}0`, `g${hex.slice(1)}`, 'x'.repeat(31)]) {
      expect(parseKek(Buffer.from(wrong))).toBeUndefined();
    }
  });
});

describe('API keys', () => {
  test('are told from typos without a look-up', () => {
    for (let i = 0; i < 200; i++) {
      const api_key = newApiKey();
      expect(api_key).toMatch(/^stk_[0-9A-Za-z]{34}$/);
      expect(isApiKey(api_key)).toBe(true);
      const at = 4 + (i % 34);
      const typo = api_key.slice(0, at) + (api_key[at] === 'x' ? 'y' : 'x') + api_key.slice(at + 1);
      expect(isApiKey(typo)).toBe(false);
      expect(isApiKey(`${api_key} `)).toBe(false);
    }
  });
  test('have digests that depend on the whole key', () => {
    const api_key = newApiKey();
    expect(keyring.apiKeyDigest(api_key)).toHaveLength(32);
    expect(keyring.apiKeyDigest(api_key)).not.toBe(keyring.apiKeyDigest(api_key.slice(0, -1)));
  });
});
