import type { Stem, Token } from '../types.ts';

/** Random bytes in blocks, as latin1 strings (one character a byte). */
export type ByteBlocks = (block: number) => string;

/** Why a kind refuses a text. */
export interface Refusal {
  /** The end of a sentence about the text, which it never contains: `is not an e-mail address`. */
  readonly reason: string;
}

export function isRefusal(plan: unknown): plan is Refusal {
  return typeof plan === 'object' && plan !== null && 'reason' in plan;
}

/** How a shape makes stems. */
export interface Form<Plan> {
  /** The part that all draws of a value share. At least MIN_STEMS stems fit it. */
  plan(value: string): Plan | Refusal;
  /**
   * Draws a stem.
   * @param extra characters to add, because shorter stems were taken
   */
  stem(plan: Plan, extra: number, blocks: ByteBlocks): string;
}

/** Draws at one length before the shape grows by one character. */
export const DRAWS_A_LENGTH = 8;

/**
 * Draws before a value has no token. With at least 10^6 stems and growth, practically out of reach.
 */
export const MAX_DRAWS = 64;

/** Random bytes of one draw, as blocks. */
export type DrawBits = (draw: number, block: number) => string;

/** A token and the number of its draw. */
export interface Drawn {
  readonly token: Token;
  readonly draw: number;
}

const A = 0x61;
const UPPER_A = 0x41;
const ZERO = 0x30;
/** Without the mark of a kept character. */
const ASCII = 0x7f;
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
    if (unit !== A && unit !== ZERO && unit !== UPPER_A) {
      drawn[i] = unit & ASCII;
      continue;
    }
    const bound = unit === ZERO ? DIGIT_BOUND : LETTER_BOUND;
    let byte: number;
    do {
      if (next === bytes.length) {
        bytes = blocks(++block);
        next = 0;
      }
      byte = bytes.charCodeAt(next++);
    } while (byte >= bound);
    drawn[i] = unit + (byte % (unit === ZERO ? 10 : 26));
  }
  return drawn.toString('latin1', 0, shape.length) as Stem;
}
