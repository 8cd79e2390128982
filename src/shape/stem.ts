import type { Stem } from '../types.ts';

/** Random bytes as a latin1 string (one character a byte), block after block. */
export type ByteBlocks = (block: number) => string;

const LETTERS = 'abcdefghijklmnopqrstuvwxyz';
const DIGITS = '0123456789';
/** Bytes from here on are thrown away, so that every letter and digit is equally likely. */
const LETTER_BOUND = 256 - (256 % 26);
const DIGIT_BOUND = 256 - (256 % 10);

/** Draws a stem of this shape, unbiased (rejection sampling), from as many blocks as it takes. */
export function drawStem(shape: string, blocks: ByteBlocks): Stem {
  let bytes = blocks(0);
  let block = 0;
  let next = 0;
  const below = (bound: number): number => {
    for (;;) {
      if (next === bytes.length) {
        bytes = blocks(++block);
        next = 0;
      }
      const byte = bytes.charCodeAt(next++);
      if (byte < bound) return byte;
    }
  };
  let stem = '';
  for (let i = 0; i < shape.length; i++) {
    const unit = shape.charCodeAt(i);
    if (unit === 0x61) stem += LETTERS.charAt(below(LETTER_BOUND) % 26);
    else if (unit === 0x30) stem += DIGITS.charAt(below(DIGIT_BOUND) % 10);
    else stem += shape.charAt(i);
  }
  return stem as Stem;
}
