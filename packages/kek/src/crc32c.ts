/** Castagnoli's polynomial (RFC 3720, appendix B.4), bits reversed. node:zlib has only CRC-32. */
const POLYNOMIAL = 0x82f63b78;

export function crc32c(bytes: Uint8Array): number {
  let rest = 0xffffffff;
  for (const byte of bytes) {
    rest ^= byte;
    for (let bit = 0; bit < 8; bit++) rest = (rest >>> 1) ^ (rest & 1 ? POLYNOMIAL : 0);
  }
  return (rest ^ 0xffffffff) >>> 0;
}
