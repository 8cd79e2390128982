import type { Stem, Token, Value } from '../types.ts';
import { looksLikeCard } from './card.ts';
import { grow, shapeOf } from './shape.ts';
import { type ByteBlocks, drawStem } from './stem.ts';

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
 * a draw whose stem or token is the value itself, or whose stem looks like a card number.
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
  return stem !== value && token !== value && !looksLikeCard(stem);
}
