import fc from 'fast-check';
import { expect, test } from 'vitest';
import { byteaArray, bytesOfBytea, uuidArray } from '../../src/store/bytea-array.ts';

// array_recv: dimensions, has-nulls, element type; of the one dimension its size and lower bound.
const HEAD_OF_TWO = '00000001 00000000 00000011 00000002 00000001';

function hex(text: string): Buffer {
  return Buffer.from(text.replaceAll(' ', ''), 'hex');
}

test('is what PostgreSQL receives: a header, then each element after its length; a latin1 string is one byte a character', () => {
  const bytes = hex(`${HEAD_OF_TWO} 00000003 00ff80 00000001 41`);
  expect(byteaArray([Buffer.from([0x00, 0xff, 0x80]), Buffer.from('A')])).toEqual(bytes);
  expect(byteaArray(['\x00\xff\x80', 'A'])).toEqual(bytes);
});

test('of uuid it differs by the element type only', () => {
  const first = '\x00\xff'.repeat(8);
  const second = 'A'.repeat(16);
  const bytes = hex(
    `00000001 00000000 00000b86 00000002 00000001 00000010 ${'00ff'.repeat(8)} 00000010 ${'41'.repeat(16)}`,
  );
  expect(uuidArray([first, second])).toEqual(bytes);
  expect(uuidArray([])).toEqual(hex('00000000 00000000 00000b86'));
});

test('an empty element has length 0 and is no null', () => {
  expect(byteaArray(['', Buffer.alloc(0)])).toEqual(hex(`${HEAD_OF_TWO} 00000000 00000000`));
});

test('an empty array has no dimension', () => {
  expect(byteaArray([])).toEqual(hex('00000000 00000000 00000011'));
});

test('any elements, mixed, come out of it again in order', () => {
  const element = fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes));
  fc.assert(
    fc.property(fc.array(fc.tuple(element, fc.boolean()), { minLength: 1 }), (elements) => {
      const array = byteaArray(
        elements.map(([bytes, asText]) => (asText ? bytes.toString('latin1') : bytes)),
      );
      const found: Buffer[] = [];
      let at = 20;
      while (at < array.length) {
        const end = at + 4 + array.readInt32BE(at);
        found.push(array.subarray(at + 4, end));
        at = end;
      }
      expect(found).toEqual(elements.map(([bytes]) => bytes));
      expect(array.readInt32BE(12)).toBe(elements.length);
    }),
  );
});

test('the text of a result is read back', () => {
  expect(bytesOfBytea('\\x00ff80')).toEqual(Buffer.from([0x00, 0xff, 0x80]));
  expect(bytesOfBytea('\\x')).toEqual(Buffer.alloc(0));
});
