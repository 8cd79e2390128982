import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { isApiKey } from '../../src/crypto/api-key.ts';
import { kekOf } from '../../src/crypto/kek.ts';
import { Keyring } from '../../src/crypto/keyring.ts';
import { spaceBytes } from '../../src/crypto/scope.ts';
import { looksLikeCard } from '../../src/shape/card.ts';
import { drawToken } from '../../src/shape/kind.ts';
import { shapeOf } from '../../src/shape/shape.ts';
import { drawStem } from '../../src/shape/token.ts';
import { KEY_PURPOSES } from '../../src/types.ts';
import { has } from '../support/deploy.ts';

const folder = join(import.meta.dirname, '../vectors');
const read = (name: string) => JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8'));
/** The same file serves implementations in other languages. */
const vectors = read('vectors');
const keys = KEY_PURPOSES.map((purpose) => ({
  id: '',
  purpose,
  version: 1,
  bytes: Buffer.from(vectors.keys[purpose], 'hex'),
}));
const keyring = new Keyring(keys);
const hex = (latin1: string) => Buffer.from(latin1, 'latin1').toString('hex');
const latin1 = (digits: string) => Buffer.from(digits, 'hex').toString('latin1');

test.skipIf(!has('python3', '--version')).each(['vectors', 'kinds'])(
  '%s.json has what the second implementation makes of its inputs',
  (name) => {
    const made = execFileSync('python3', [join(folder, `${name}.py`)], { encoding: 'utf8' });
    expect(read(name)).toEqual(JSON.parse(made));
  },
);

describe('test vectors', () => {
  test.each<any>(vectors.shapes.cases)('shape of $value', ({ value, shape }) => {
    expect(shapeOf(value)).toBe(shape);
  });

  test.each<any>(vectors.stems.cases)('stem of $shape', ({ shape, stem }) => {
    const up = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte));
    const blocks = (block: number) => (block === 0 ? up : up.toReversed()).join('');
    expect(drawStem(shape, blocks)).toBe(stem);
  });

  test.each<any>(vectors.tokens.cases)('token of $value from draw $from', (vector) => {
    const { draws, value_fingerprint: valueFingerprint } = keyring.deterministicDraws(vector.value);
    const { token, draw } = vector;
    expect(drawToken(vector.value, 'tok', draws, vector.from)).toEqual({ token, draw });
    expect(hex(valueFingerprint)).toBe(vector.value_fingerprint);
  });

  test.each<any>(vectors.random_tokens.cases)('random token of $value from $from', (vector) => {
    const { draws } = keyring.randomDraws(latin1(vector.value_fingerprint) as never);
    const { token, draw } = vector;
    expect(drawToken(vector.value, 'tok', draws, vector.from)).toEqual({ token, draw });
    expect(hex(keyring.tokenFingerprint(token))).toBe(vector.token_fingerprint);
  });

  test.each<any>(vectors.token_fingerprints.cases)(
    'fingerprint of $token $space',
    ({ token, space = '', token_fingerprint: tokenFingerprint }) => {
      expect(hex(keyring.tokenFingerprint(token, spaceBytes(space)))).toBe(tokenFingerprint);
    },
  );

  test.each<any>(vectors.records.cases)('record of $token $why', (vector) => {
    const opened = keyring.open({
      token_fingerprint: keyring.tokenFingerprint(vector.token),
      value_fingerprint: latin1(vector.value_fingerprint) as never,
      key_version: vector.key_version,
      sealed: Buffer.from(vector.sealed, 'hex') as never,
    });
    if (vector.opens === false) expect(opened).toHaveProperty('failure');
    else expect(opened).toEqual({ value: vector.value });
  });

  const kek = kekOf(Buffer.from(vectors.keys.kek, 'hex'));
  test.each<any>(vectors.wrapped_keys.cases)('wrapped $purpose key, version $version', (vector) => {
    const key = kek.unwrap(vector.purpose, vector.version, Buffer.from(vector.wrapped, 'hex'));
    expect(kek.id).toBe(vectors.wrapped_keys.kek_id);
    expect(key?.toString('hex') ?? null).toBe(vector.key);
  });

  test.each<any>(vectors.api_keys.cases)(
    'API key $api_key',
    ({ api_key: apiKey, is_valid: isValid, digest }) => {
      expect(isApiKey(apiKey)).toBe(isValid);
      if (isValid) expect(hex(keyring.apiKeyDigest(apiKey))).toBe(digest);
    },
  );

  test.each<any>(vectors.cards.cases)('card-like: $text', ({ text, is_card: isCard }) => {
    expect(looksLikeCard(text)).toBe(isCard);
  });
});
