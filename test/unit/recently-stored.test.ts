import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { RecentlyOpened, RecentlyStored } from '../../src/tokens/recently-stored.ts';
import type { Sealed, SealedRecord, TokenFingerprint, ValueFingerprint } from '../../src/types.ts';

function fingerprint(bytes = randomBytes(16)): TokenFingerprint {
  return bytes.toString('latin1') as TokenFingerprint;
}

test('remembers what was added, and knows nothing else', () => {
  const recent = new RecentlyStored();
  const [added, others] = [1, 2].map(() => Array.from({ length: 1_000 }, () => fingerprint()));
  for (const one of added!) recent.add(one);
  // Two of a thousand share one of 2^20 slots in one run of two: the later one is remembered.
  expect(added!.filter((one) => recent.has(one)).length).toBeGreaterThan(990);
  expect(others!.some((one) => recent.has(one))).toBe(false);
});

test('an empty slot is no fingerprint, not even one of zeros or of ones', () => {
  const recent = new RecentlyStored();
  for (const byte of [0, 0xff]) {
    const one = fingerprint(Buffer.alloc(16, byte));
    expect(recent.has(one)).toBe(false);
    recent.add(one);
    expect(recent.has(one)).toBe(true);
    for (const at of [0, 1, 4, 5, 6, 7])
      expect(recent.has(fingerprint(Buffer.alloc(16, byte).fill(7, at, at + 1)))).toBe(false);
  }
});

function record(sealedBytes = 60): SealedRecord {
  return {
    token_fingerprint: fingerprint(),
    value_fingerprint: randomBytes(16).toString('latin1') as ValueFingerprint,
    key_version: 1,
    sealed: randomBytes(sealedBytes) as Sealed,
  };
}

/** The record with one bit of its bytes changed. */
function flipped(one: SealedRecord, bit: number): SealedRecord {
  const sealed = Buffer.from(one.sealed) as Sealed;
  sealed[bit >> 3]! ^= 1 << (bit & 7);
  return { ...one, sealed };
}

test('a record that opened is known by all of its bytes, and by nothing less', () => {
  const opened = new RecentlyOpened();
  const one = record();
  const other = record();
  expect(opened.has(one)).toBe(false);
  opened.add(one);
  expect(opened.has({ ...one, sealed: Buffer.from(one.sealed) as Sealed })).toBe(true);
  for (let bit = 0; bit < 8 * one.sealed.length; bit++)
    expect(opened.has(flipped(one, bit)), `bit ${bit}`).toBe(false);
  const { value_fingerprint: valueFingerprint, token_fingerprint: tokenFingerprint } = other;
  const shorter = one.sealed.subarray(1) as Sealed;
  const changes = [
    { value_fingerprint: valueFingerprint },
    { token_fingerprint: tokenFingerprint },
    { key_version: 2 },
  ];
  for (const change of [...changes, { sealed: shorter }, { sealed: Buffer.alloc(0) as Sealed }])
    expect(opened.has({ ...one, ...change })).toBe(false);
});

test('what opened is kept when the buffer of the record is used again', () => {
  const opened = new RecentlyOpened();
  const one = record();
  const before = Buffer.from(one.sealed) as Sealed;
  opened.add(one);
  one.sealed.fill(0);
  expect(opened.has(one)).toBe(false);
  expect(opened.has({ ...one, sealed: before })).toBe(true);
});

test('long records are not kept', () => {
  const opened = new RecentlyOpened();
  const long = record(10_000);
  opened.add(long);
  expect(opened.has(long)).toBe(false);
});
