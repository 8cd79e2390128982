import { expect, test } from 'vitest';
import { FilePairs } from '../../src/records/pairs.ts';
import type { TokenFingerprint, ValueFingerprint } from '../../src/types.ts';

function fingerprint(first: number, rest = 0) {
  const bytes = Buffer.alloc(16);
  bytes.writeUIntBE(first, 0, 6);
  bytes.writeUIntBE(rest, 6, 6);
  return bytes.toString('latin1') as TokenFingerprint & ValueFingerprint;
}

test('each pair of a file is compared with all before it, however many and however alike', () => {
  const pairs = new FilePairs();
  const alike = (i: number) => (i % 20 === 0 ? 2 ** 48 - 1 : i >> 1);
  const all = Array.from({ length: 2_500 }, (_, i) => i);
  const add = (tokenOf: (i: number) => TokenFingerprint, more = 0) =>
    all.map((i) => pairs.add(tokenOf(i), fingerprint(i + more, i), i));
  const token = (i: number) => fingerprint(alike(i), i);
  const none = { conflictLine: undefined, isKnown: false, isFirst: true };
  expect(add(token)).toEqual(all.map(() => none));
  expect(add(token)).toEqual(all.map(() => ({ ...none, isKnown: true })));
  const conflicts = all.map((i) => ({ conflictLine: i, isKnown: false, isFirst: false }));
  expect(add(token, 1)).toEqual(conflicts);
  const others = add((i) => fingerprint(2 ** 47 + i));
  expect(others).toEqual(all.map(() => ({ ...none, isFirst: false })));
});
