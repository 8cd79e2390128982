import { SHAPED_CHARACTERS } from '../shape/shape.ts';
import { MAX_VALUE_BYTES } from '../types.ts';

const MAX_CHARACTER_BYTES = 4;

/**
 * Upper bound for the bytes of a token's value, for planning. A stem has at least as many
 * characters as its value, up to SHAPED_CHARACTERS. Stored values are measured exactly. An import
 * refuses what would break the bound.
 * @param hasKinds whether the token may be of a kind whose tokens tell nothing of that length
 * @param ending `_` and the suffix: an imported token without it tells nothing either
 */
export function mostValueBytes(token: string, hasKinds: boolean, ending: string): number {
  if (isLong(token)) return MAX_VALUE_BYTES;
  const tellsLength = !hasKinds && token.endsWith(ending);
  return MAX_CHARACTER_BYTES * (tellsLength ? token.length : SHAPED_CHARACTERS);
}

/** Whether the token is so long that it tells nothing of its value's length. */
export function isLong(token: string): boolean {
  return token.length >= SHAPED_CHARACTERS;
}
