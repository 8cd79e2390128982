import type { Stem, Token, Value } from '../types.ts';
import { looksLikeCard } from './card.ts';
import { grow, shapeOf } from './shape.ts';

/** Random bytes in blocks, as latin1 strings (one character a byte). */
type ByteBlocks = (block: number) => string;

/** Draws at one length before the shape grows by one character. */
export const DRAWS_A_LENGTH = 8;

/**
 * Draws before a value has no token. With at least 10^6 stems and growth, practically out of reach.
 */
export const MAX_DRAWS = 64;

/** Random bytes of one draw, as blocks. */
export type Draws = (draw: number, block: number) => string;

/** A token and the number of its draw. */
export interface Drawn {
  readonly token: Token;
  readonly draw: number;
}

/**
 * The first acceptable token of a value from draw `from` on; undefined when no draw is left. Skips
 * a draw whose stem or token is the value itself, or whose token looks like a card number.
 */
export function drawToken(
  value: Value,
  suffix: string,
  draws: Draws,
  from: number,
): Drawn | undefined {
  const shape = shapeOf(value);
  for (let draw = from; draw < MAX_DRAWS; draw++) {
    const blocks: ByteBlocks = (block) => draws(draw, block);
    const stem = drawStem(grow(shape, Math.floor(draw / DRAWS_A_LENGTH)), blocks);
    const token = withSuffix(stem, suffix);
    if (isAcceptable(value, stem, token)) return { token, draw };
  }
  return undefined;
}

function withSuffix(stem: Stem, suffix: string): Token {
  return `${stem}_${suffix}` as Token;
}

function isAcceptable(value: string, stem: string, token: string): boolean {
  return stem !== value && token !== value && !looksLikeCard(token);
}

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
