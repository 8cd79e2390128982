import type { Stem } from '../types.ts';

/** Random bytes in blocks, as latin1 strings (one character a byte). */
export type ByteBlocks = (block: number) => string;

const A = 0x61;
const ZERO = 0x30;
/** Bytes from this bound on are rejected, so that every letter and digit is equally likely. */
const LETTER_BOUND = 256 - (256 % 26);
const DIGIT_BOUND = 256 - (256 % 10);

/** Longer than any shape. All draws share it, because they are synchronous. */
const drawn = Buffer.alloc(1_024);

/**
 * Draws a stem of this shape without bias (rejection sampling), from as many blocks as needed.
 * Writes into a buffer: a string built by characters costs twice as much, and again when it is
 * hashed.
 */
export function drawStem(shape: string, blocks: ByteBlocks): Stem {
  let bytes = blocks(0);
  let block = 0;
  let next = 0;
  for (let i = 0; i < shape.length; i++) {
    const unit = shape.charCodeAt(i);
    if (unit !== A && unit !== ZERO) {
      drawn[i] = unit;
      continue;
    }
    const bound = unit === A ? LETTER_BOUND : DIGIT_BOUND;
    let byte: number;
    do {
      if (next === bytes.length) {
        bytes = blocks(++block);
        next = 0;
      }
      byte = bytes.charCodeAt(next++);
    } while (byte >= bound);
    drawn[i] = unit + (byte % (unit === A ? 26 : 10));
  }
  return drawn.toString('latin1', 0, shape.length) as Stem;
}
