import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { deriveKey, importKey, seal } from '../../src/crypto/primitives.ts';
import { openRecord } from '../../src/crypto/record.ts';
import { scopeOf } from '../../src/crypto/scope.ts';
import type { Sealed, SealedRecord, Token, Value } from '../../src/types.ts';
import { testKey, testKeyring } from '../support/keys.ts';

const keyring = testKeyring();
const VALUE = 'ann@ex.com' as Value;
const TOKEN = 'kqz@pd.wta_tok' as Token;
const TOKEN_FINGERPRINT = keyring.tokenFingerprint(TOKEN);
const DAMAGED = { failure: 'damaged' };

function sealed(value = VALUE, token = TOKEN): SealedRecord {
  return keyring.seal(
    value,
    keyring.tokenFingerprint(token),
    keyring.deterministicDraws(value).value_fingerprint,
  );
}

function flipped(bytes: Buffer, bit: number): Sealed {
  const copy = Buffer.from(bytes);
  copy[bit >> 3]! ^= 1 << (bit & 7);
  return copy as Sealed;
}

function flippedText<T extends string>(latin1: T, bit: number): T {
  return flipped(Buffer.from(latin1, 'latin1'), bit).toString('latin1') as T;
}

test('any well-formed value opens to the same string', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 400 }), fc.string(), (value, token) => {
      expect(keyring.open(sealed(value as Value, token as Token))).toEqual({ value });
    }),
  );
});

test('the longest value opens to the same string', () => {
  const value = '😀'.repeat(16_384) as Value;
  expect(keyring.open(sealed(value))).toEqual({ value });
});

test('a record of the format of the last one is opened at the first try, and of another at the second', () => {
  const decipher = vi.spyOn(crypto, 'createDecipheriv');
  syncBuiltinESMExports();
  onTestFinished(() => {
    decipher.mockRestore();
    syncBuiltinESMExports();
  });
  const scoped = keyring.seal(
    VALUE,
    TOKEN_FINGERPRINT,
    keyring.deterministicDraws(VALUE).value_fingerprint,
    scopeOf('person', ''),
  );
  keyring.open(sealed());
  const tries = [sealed(), scoped, scoped, sealed()].map((record) => {
    decipher.mockClear();
    expect(keyring.open(record)).toMatchObject({ value: VALUE });
    return decipher.mock.calls.length;
  });
  expect(tries).toEqual([1, 2, 1, 2]);
});

describe('does not open', () => {
  const record = sealed();
  const empty = sealed('' as Value);
  const other = sealed('bob@ex.com' as Value, 'abc@de.fgh_tok' as Token);
  const bits = (count: number) => Array.from({ length: count }, (_, bit) => bit);
  const cut = (from: SealedRecord, bytes: number) => ({
    sealed: from.sealed.subarray(0, bytes) as Sealed,
  });
  const swapped = {
    token_fingerprint: record.value_fingerprint as never,
    value_fingerprint: record.token_fingerprint as never,
  };

  test.each<[string, Partial<SealedRecord>[]]>([
    [
      'C05: with any one bit of sealed changed',
      bits(record.sealed.length * 8).map((bit) => ({ sealed: flipped(record.sealed, bit) })),
    ],
    [
      'C05: with any one bit of the token fingerprint changed',
      bits(128).map((bit) => ({ token_fingerprint: flippedText(record.token_fingerprint, bit) })),
    ],
    [
      'C05: with any one bit of the value fingerprint changed',
      bits(128).map((bit) => ({ value_fingerprint: flippedText(record.value_fingerprint, bit) })),
    ],
    ['cut anywhere', bits(record.sealed.length).map((bytes) => cut(record, bytes))],
    [
      'empty, and with a short authentication tag',
      bits(16).map((tag) => ({ ...empty, ...cut(empty, 12 + tag) })),
    ],
    ['with a byte more', [{ sealed: Buffer.concat([record.sealed, Buffer.alloc(1)]) as Sealed }]],
    [
      'with a column of another record',
      (['token_fingerprint', 'value_fingerprint', 'sealed'] as const).map((column) => ({
        [column]: other[column],
      })),
    ],
    ['with its two fingerprints swapped', [swapped]],
    [
      'with a value fingerprint of another length',
      [0, 15, 17].map((bytes) => ({
        value_fingerprint: `${record.value_fingerprint}x`.slice(0, bytes) as never,
      })),
    ],
  ])('%s', (_, changes) => {
    expect(changes.length).toBeGreaterThan(0);
    for (const change of changes) expect(keyring.open({ ...record, ...change })).toEqual(DAMAGED);
  });
});

test.each([0, -1, 2, 2 ** 31])('version %i, which is not there, is key_missing', (version) => {
  const opened = keyring.open({ ...sealed(), key_version: version });
  expect(opened).toEqual({ failure: 'key_missing' });
});
test('each of the 256 first fingerprint bytes has a key of its own, derived from the DEK', () => {
  const dek = importKey(testKey('dek 1'));
  const subkeys = Array.from({ length: 256 }, (_, i) =>
    deriveKey(dek, `standin record subkey ${i}`),
  );
  expect(new Set(subkeys.map((key) => key.export().toString('hex'))).size).toBe(256);
  const firstBytes = new Set<number>();
  for (let i = 0; i < 3_000; i++) {
    const record = sealed(VALUE, `t${i}` as Token);
    const firstByte = record.token_fingerprint.charCodeAt(0);
    firstBytes.add(firstByte);
    const opened = [firstByte, firstByte ^ 1].map((byte) => openRecord(subkeys[byte]!, record));
    expect(opened).toEqual([{ value: VALUE }, undefined]);
  }
  expect(firstBytes.size).toBe(256);
});

const names = fc.stringMatching(/^[A-Za-z0-9_-]{1,32}$/);
const tokens = fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 200 });
const values = fc.string({ unit: 'binary', maxLength: 200 });
const spaces = fc.oneof(fc.constant(''), names);

describe('imports', () => {
  const place = [TOKEN_FINGERPRINT, keyring.randomDraws().value_fingerprint] as const;

  test('an imported record opens with its token, an alias with its space', () => {
    fc.assert(
      fc.property(values, tokens, names, spaces, (value, token, kind, space) => {
        for (const scope of [undefined, scopeOf('text', ''), scopeOf(kind, space)]) {
          const record = keyring.seal(value as Value, ...place, scope, token as Token);
          expect(keyring.open(record)).toEqual({ value, scope, imported: token });
        }
        const alias = { alias: token as Token, space };
        expect(keyring.open(keyring.sealAlias(alias, ...place))).toEqual(alias);
      }),
    );
  });

  test('records of programs from before open as ever', () => {
    const key = deriveKey(
      importKey(testKey('dek 1')),
      `standin record subkey ${TOKEN_FINGERPRINT.charCodeAt(0)}`,
    );
    const sealedAs = (format: number, plaintext: string): SealedRecord => {
      const aad = Buffer.alloc(37);
      aad.writeUInt8(format, 0);
      aad.writeUInt32BE(1, 1);
      aad.write(place[0] + place[1], 5, 'latin1');
      const [token, value] = place;
      const sealed = seal(key, plaintext, aad) as Sealed;
      return { token_fingerprint: token, value_fingerprint: value, key_version: 1, sealed };
    };
    const prefixed = (name: string) => String.fromCharCode(name.length) + name;
    fc.assert(
      fc.property(values, names, spaces, (value, kind, space) => {
        expect(keyring.open(sealedAs(1, value))).toEqual({ value });
        const scope = scopeOf(kind, space);
        const record = sealedAs(2, prefixed(space) + prefixed(kind) + value);
        expect(keyring.open(record)).toEqual({ value, scope });
      }),
    );
  });
});
