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
      for (const bit of [byte === 0 ? 2 : 1, 0x80]) {
        const other = Buffer.alloc(16, byte).fill(byte ^ bit, at, at + 1);
        expect(recent.has(fingerprint(other))).toBe(false);
      }
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

test('of records that share a place, the four newest are kept; long ones are not', () => {
  const opened = new RecentlyOpened();
  const [first, last] = [0, 0xff].map((byte) =>
    Array.from({ length: 5 }, () => ({
      ...record(128),
      token_fingerprint: fingerprint(Buffer.alloc(16, byte)),
    })),
  );
  for (const one of [...first!, ...last!]) opened.add(one);
  for (const all of [first!, last!])
    expect(all.map((one) => opened.has(one))).toEqual([false, true, true, true, true]);
  const long = record(129);
  opened.add(long);
  expect(opened.has(long)).toBe(false);
});
