import { expect, test } from 'vitest';
import { NONCE_BYTES, randomLatin1 } from '../../src/crypto/primitives.ts';
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

/** More bytes than are the same by chance: once in 2^32 pairs. */
const MOST_SHARED_BYTES = 3;

test('random bytes are drawn once: successive draws of every size are whole, and share none', () => {
  const sizes = [NONCE_BYTES, 16, 64, 33, NONCE_BYTES];
  let before = randomLatin1(NONCE_BYTES);
  for (let i = 0; i < 20_000; i++) {
    const size = sizes[i % sizes.length]!;
    const drawn = randomLatin1(size);
    if (drawn.length !== size) expect.fail(`${drawn.length} bytes instead of ${size}`);
    const longest = Math.min(before.length, drawn.length);
    for (let shared = MOST_SHARED_BYTES + 1; shared <= longest; shared++) {
      if (drawn.startsWith(before.slice(-shared))) expect.fail(`${shared} bytes are drawn twice`);
      if (before.startsWith(drawn.slice(-shared))) expect.fail(`${shared} bytes are drawn twice`);
    }
    before = drawn;
  }
});
