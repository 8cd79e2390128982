import { hash } from 'node:crypto';

/** Block size of each hash function (FIPS 180-4). */
const BLOCK_BYTES = { sha256: 64, sha512: 128 } as const;
const DIGEST_BYTES = { sha256: 32, sha512: 64 } as const;
const INNER_PAD = 0x36;
const OUTER_PAD = 0x5c;
/** UTF-8 needs at most three bytes a UTF-16 unit. */
const MAX_BYTES_A_UNIT = 3;
const FIRST_ROOM_BYTES = 1_024;

/**
 * HMAC (RFC 2104) with one key, for very many short messages. Uses two one-shot hashes of
 * node:crypto, because one createHmac object costs more than both (docs/decisions/0020). Two
 * buffers keep the padded key blocks; the message is written after the first block, and erased.
 */
export class Mac {
  readonly #algorithm: keyof typeof BLOCK_BYTES;
  readonly #blockBytes: number;
  readonly #outer: Buffer;
  #inner: Buffer;

  /** @param key at most one block: 64 bytes for sha256, 128 for sha512 */
  constructor(algorithm: keyof typeof BLOCK_BYTES, key: Uint8Array) {
    this.#algorithm = algorithm;
    this.#blockBytes = BLOCK_BYTES[algorithm];
    if (key.length > this.#blockBytes) throw new RangeError('the key is longer than a block');
    this.#inner = Buffer.alloc(this.#blockBytes + FIRST_ROOM_BYTES, INNER_PAD);
    this.#outer = Buffer.alloc(this.#blockBytes + DIGEST_BYTES[algorithm], OUTER_PAD);
    key.forEach((byte, i) => {
      this.#inner[i]! ^= byte;
      this.#outer[i]! ^= byte;
    });
  }

  /** The MAC of the prefix bytes and the UTF-8 form of the text, as a latin1 string. */
  digest(text: string, ...prefix: readonly number[]): string {
    const start = this.#blockBytes + prefix.length;
    this.#reserve(start + MAX_BYTES_A_UNIT * text.length);
    for (let i = 0; i < prefix.length; i++) this.#inner[this.#blockBytes + i] = prefix[i]!;
    const end = start + this.#inner.write(text, start, 'utf8');
    this.#close(end);
    return hash(this.#algorithm, this.#outer, 'binary');
  }

  /** The MAC of a latin1 text and bytes, in base64url. */
  base64url(text: string, bytes: Uint8Array): string {
    const start = this.#blockBytes + text.length;
    this.#reserve(start + bytes.length);
    this.#inner.write(text, this.#blockBytes, 'latin1');
    this.#inner.set(bytes, start);
    this.#close(start + bytes.length);
    return hash(this.#algorithm, this.#outer, 'base64url');
  }

  /** Hashes the inner message and erases it. Writes the digest after the outer pad. */
  #close(end: number): void {
    // A string costs half as much as a Buffer.
    const innerDigest = hash(this.#algorithm, this.#inner.subarray(0, end), 'binary');
    this.#inner.fill(0, this.#blockBytes, end);
    this.#outer.write(innerDigest, this.#blockBytes, 'latin1');
  }

  /** Without this, a small buffer would cut the message, and two messages would share a MAC. */
  #reserve(bytes: number): void {
    if (bytes <= this.#inner.length) return;
    const larger = Buffer.alloc(2 * bytes);
    larger.set(this.#inner.subarray(0, this.#blockBytes));
    this.#inner.fill(0);
    this.#inner = larger;
  }
}
