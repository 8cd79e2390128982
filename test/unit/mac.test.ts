import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { Mac } from '../../src/crypto/mac.ts';

const algorithm = fc.constantFrom('sha256' as const, 'sha512' as const);
const key = fc.uint8Array({ minLength: 1, maxLength: 64 });
const text = fc.string({ unit: 'binary', maxLength: 300 });

describe('Mac', () => {
  test('agrees with createHmac for any key, prefix and text, one after the other with one key', () => {
    fc.assert(
      fc.property(algorithm, key, fc.array(text), (name, bytes, texts) => {
        const mac = new Mac(name, bytes);
        texts.forEach((one, i) => {
          const expected = createHmac(name, bytes)
            .update(Buffer.from([i, 7]))
            .update(one, 'utf8');
          expect(mac.digest(one, i, 7)).toBe(expected.digest('binary'));
        });
      }),
    );
  });

  test('a message larger than any before it is not cut', () => {
    const mac = new Mac('sha512', Buffer.alloc(32, 1));
    for (const length of [0, 1, 340, 341, 342, 1_024, 65_536, 5]) {
      const long = '語'.repeat(length);
      const expected = createHmac('sha512', Buffer.alloc(32, 1)).update(long, 'utf8');
      expect(mac.digest(long)).toBe(expected.digest('binary'));
    }
  });

  test('keeps nothing of a message, and no second copy of its key', () => {
    const key = Buffer.alloc(32, 1);
    const allocate = vi.spyOn(Buffer, 'alloc');
    const mac = new Mac('sha256', key);
    mac.digest('a secret value', 1, 2);
    mac.digest('a secret value '.repeat(1_000));
    const buffers = allocate.mock.results.map(({ value }) => value as Buffer);
    allocate.mockRestore();
    expect(buffers.map(({ length }) => length > 10_000)).toEqual([false, false, true]);
    expect(buffers.filter((buffer) => buffer.includes('secret'))).toEqual([]);
    expect(buffers.filter((buffer) => buffer.includes(0x01 ^ 0x36))).toHaveLength(1);
  });

  test('a key longer than a block is refused', () => {
    expect(() => new Mac('sha256', Buffer.alloc(65))).toThrow(RangeError);
  });
});
