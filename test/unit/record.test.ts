import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { deriveKey, importKey, open, seal } from '../../src/crypto/primitives.ts';
import { openRecord } from '../../src/crypto/record.ts';
import { scopeOf } from '../../src/crypto/scope.ts';
import type { Sealed, SealedRecord, Token, TokenFingerprint, Value } from '../../src/types.ts';
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

test('sealed is 28 bytes longer than the value in UTF-8: nonce and authentication tag', () => {
  expect(sealed('' as Value).sealed).toHaveLength(28);
  expect(sealed('é€😀' as Value).sealed).toHaveLength(28 + 9);
});

test('every nonce is another one', () => {
  const nonces = new Set<string>();
  for (let i = 0; i < 10_000; i++) nonces.add(sealed().sealed.toString('latin1', 0, 12));
  expect(nonces.size).toBe(10_000);
});

describe('does not open', () => {
  const record = sealed();

  test('with any one bit of sealed changed', () => {
    for (let bit = 0; bit < record.sealed.length * 8; bit++) {
      expect(keyring.open({ ...record, sealed: flipped(record.sealed, bit) })).toEqual(DAMAGED);
    }
  });

  test('with any one bit of a fingerprint changed', () => {
    for (let bit = 0; bit < 128; bit++) {
      const tokenFingerprint = flippedText(record.token_fingerprint, bit);
      const valueFingerprint = flippedText(record.value_fingerprint, bit);
      expect(keyring.open({ ...record, token_fingerprint: tokenFingerprint })).toEqual(DAMAGED);
      expect(keyring.open({ ...record, value_fingerprint: valueFingerprint })).toEqual(DAMAGED);
    }
  });

  test.each([4, 8, 12, 15])('with an authentication tag of %i bytes', (bytes) => {
    const cut = record.sealed.length - 16 + bytes;
    expect(keyring.open({ ...record, sealed: record.sealed.subarray(0, cut) as Sealed })).toEqual(
      DAMAGED,
    );
  });

  test.each([4, 8, 12, 15])('empty and with an authentication tag of %i bytes', (bytes) => {
    const empty = sealed('' as Value);
    const cut = empty.sealed.subarray(0, 12 + bytes) as Sealed;
    expect(keyring.open({ ...empty, sealed: cut })).toEqual(DAMAGED);
  });

  test('cut anywhere', () => {
    for (let bytes = 0; bytes < record.sealed.length; bytes++) {
      const cut = record.sealed.subarray(0, bytes) as Sealed;
      expect(keyring.open({ ...record, sealed: cut })).toEqual(DAMAGED);
    }
  });

  test('with a byte more', () => {
    const longer = Buffer.concat([record.sealed, Buffer.alloc(1)]) as Sealed;
    expect(keyring.open({ ...record, sealed: longer })).toEqual(DAMAGED);
  });

  test('with a column of another record', () => {
    const other = sealed('bob@ex.com' as Value, 'abc@de.fgh_tok' as Token);
    for (const column of ['token_fingerprint', 'value_fingerprint', 'sealed'] as const) {
      expect(keyring.open({ ...record, [column]: other[column] })).toEqual(DAMAGED);
    }
  });

  test('with its two fingerprints swapped', () => {
    const tokenFingerprint = record.value_fingerprint as never;
    const valueFingerprint = record.token_fingerprint as never;
    expect(
      keyring.open({
        ...record,
        token_fingerprint: tokenFingerprint,
        value_fingerprint: valueFingerprint,
      }),
    ).toEqual(DAMAGED);
  });

  test.each([0, 15, 17])('with a value fingerprint of %i bytes', (bytes) => {
    const valueFingerprint = `${record.value_fingerprint}x`.slice(0, bytes) as never;
    expect(keyring.open({ ...record, value_fingerprint: valueFingerprint })).toEqual(DAMAGED);
  });
});

describe('key versions', () => {
  test('new records are sealed with the highest, old ones still open', () => {
    const old = testKeyring([1]).seal(VALUE, TOKEN_FINGERPRINT, 'v'.repeat(16) as never);
    const rotated = testKeyring([1, 2]);
    expect(rotated.open(old)).toEqual({ value: VALUE });
    expect(rotated.seal(VALUE, TOKEN_FINGERPRINT, 'v'.repeat(16) as never).key_version).toBe(2);
  });

  test('a record under the name of another version does not open', () => {
    const rotated = testKeyring([1, 2]);
    const record = rotated.seal(VALUE, TOKEN_FINGERPRINT, 'v'.repeat(16) as never);
    expect(rotated.open({ ...record, key_version: 1 })).toEqual(DAMAGED);
  });

  test('the version is bound even where two versions are the same key', () => {
    const key = importKey(testKey('same'));
    const aad = Buffer.from(`\x01\0\0\0\x01${'t'.repeat(16)}${'v'.repeat(16)}`, 'latin1');
    const record = {
      token_fingerprint: 't'.repeat(16) as TokenFingerprint,
      value_fingerprint: 'v'.repeat(16) as never,
      sealed: seal(key, VALUE, aad) as Sealed,
    };
    expect(openRecord(key, { ...record, key_version: 1 })).toEqual({ value: VALUE });
    expect(openRecord(key, { ...record, key_version: 2 })).toBeUndefined();
  });

  test.each([0, -1, 2, 2 ** 31])(
    'version %i, which the keyring lacks, is key_missing',
    (version) => {
      expect(keyring.open({ ...sealed(), key_version: version })).toEqual({
        failure: 'key_missing',
      });
    },
  );
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

test('bytes sealed with one key or AAD do not open with another', () => {
  const [key, other] = [importKey(testKey('one')), importKey(testKey('two'))];
  const bytes = seal(key, 'text', Buffer.from('aad'));
  expect(open(key, bytes, Buffer.from('aad'))?.toString()).toBe('text');
  expect(open(other, bytes, Buffer.from('aad'))).toBeUndefined();
  expect(open(key, bytes, Buffer.from('aae'))).toBeUndefined();
  expect(open(key, bytes, Buffer.alloc(0))).toBeUndefined();
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
      const [tokenFingerprint, valueFingerprint] = place;
      const sealed = seal(key, plaintext, aad) as Sealed;
      return {
        token_fingerprint: tokenFingerprint,
        value_fingerprint: valueFingerprint,
        key_version: 1,
        sealed,
      };
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
