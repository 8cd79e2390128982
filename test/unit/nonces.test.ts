import { expect, test } from 'vitest';
import { NONCE_BYTES } from '../../src/crypto/primitives.ts';
import type { TokenFingerprint, Value, ValueFingerprint } from '../../src/types.ts';
import { testKeyring } from '../support/keys.ts';

const RECORDS = 1_000_000;

test('C16: a million records of one key version have a million nonces', () => {
  const keyring = testKeyring();
  const fingerprint = '\0'.repeat(16);
  const nonces = new Set<string>();
  for (let i = 0; i < RECORDS; i++) {
    const { sealed } = keyring.seal(
      'x' as Value,
      fingerprint as TokenFingerprint,
      fingerprint as ValueFingerprint,
    );
    nonces.add(sealed.toString('latin1', 0, NONCE_BYTES));
  }
  expect(nonces.size).toBe(RECORDS);
});
