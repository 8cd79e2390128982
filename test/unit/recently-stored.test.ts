import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { RecentlyStored } from '../../src/service/recently-stored.ts';
import type { TokenFingerprint } from '../../src/types.ts';

function fingerprint(bytes = randomBytes(16)): TokenFingerprint {
  return bytes.toString('latin1') as TokenFingerprint;
}

test('remembers what was added, and knows nothing else', () => {
  const recent = new RecentlyStored();
  const added = Array.from({ length: 1_000 }, () => fingerprint());
  expect(added.some((one) => recent.has(one))).toBe(false);
  for (const one of added) recent.add(one);
  // Two of a thousand share one of 2^20 slots in one run of two: the later one is remembered.
  expect(added.filter((one) => recent.has(one)).length).toBeGreaterThan(990);
  expect(Array.from({ length: 1_000 }, () => fingerprint()).some((one) => recent.has(one))).toBe(
    false,
  );
});

test('an empty slot is no fingerprint, not even one of zeros or of ones', () => {
  const recent = new RecentlyStored();
  for (const byte of [0, 0xff]) {
    const one = fingerprint(Buffer.alloc(16, byte));
    expect(recent.has(one)).toBe(false);
    recent.add(one);
    expect(recent.has(one)).toBe(true);
  }
});
