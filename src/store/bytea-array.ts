const BYTEA_OID = 17;
const SMALLINT_OID = 21;
const UUID_OID = 2950;
const HEADER_BYTES = 20;
/** PostgreSQL writes an empty array without a dimension. */
const EMPTY_BYTES = 12;

/** A bytea[] parameter. Strings are latin1, one character a byte. */
export function byteaArray(elements: readonly (Buffer | string)[]): Buffer {
  return binaryArray(BYTEA_OID, elements);
}

/** A uuid[] parameter. Elements are any 16 bytes: PostgreSQL does not check the UUID version. */
export function uuidArray(elements: readonly string[]): Buffer {
  return binaryArray(UUID_OID, elements);
}

/**
 * An array in the binary format of PostgreSQL's array_recv (one dimension, no nulls). pg sends a
 * Buffer as a binary parameter. So the array is copied once, instead of escaped into a text of
 * twice the size.
 */
function binaryArray(oid: number, elements: readonly (Buffer | string)[]): Buffer {
  let size = HEADER_BYTES;
  for (const element of elements) size += 4 + element.length;
  const array = Buffer.allocUnsafe(size);
  let at = writeHeader(array, oid, elements.length);
  for (const element of elements) {
    at = array.writeInt32BE(element.length, at);
    if (typeof element === 'string') array.write(element, at, 'latin1');
    else array.set(element, at);
    at += element.length;
  }
  return elements.length === 0 ? array.subarray(0, EMPTY_BYTES) : array;
}

/** A smallint[] parameter: pg would send an array of numbers as text. */
export function smallintArray(elements: readonly number[]): Buffer {
  const array = Buffer.allocUnsafe(HEADER_BYTES + 6 * elements.length);
  let at = writeHeader(array, SMALLINT_OID, elements.length);
  for (const element of elements) {
    at = array.writeInt32BE(2, at);
    at = array.writeInt16BE(element, at);
  }
  return elements.length === 0 ? array.subarray(0, EMPTY_BYTES) : array;
}

function writeHeader(array: Buffer, oid: number, length: number): number {
  array.writeInt32BE(length === 0 ? 0 : 1, 0);
  array.writeInt32BE(0, 4);
  array.writeInt32BE(oid, 8);
  array.writeInt32BE(length, 12);
  return array.writeInt32BE(1, 16);
}

/** Text form of a bytea result (`\x` and hex digits) as bytes. */
export function bytesOfBytea(text: string): Buffer {
  return Buffer.from(text.slice(2), 'hex');
}
