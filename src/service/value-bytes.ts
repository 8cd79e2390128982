import { SHAPED_CHARACTERS } from '../shape/shape.ts';

/** Of UTF-8. */
export const MAX_VALUE_BYTES = 65_536;
const MAX_CHARACTER_BYTES = 4;

/**
 * How long the value of a token can be: a stem has as many characters as the value or more, up to
 * those that shape it. Good enough to plan with; what comes from the vault is measured.
 */
export function mostValueBytes(token: string): number {
  return isLong(token) ? MAX_VALUE_BYTES : MAX_CHARACTER_BYTES * token.length;
}

/** Whether the token tells nothing of the length of its value. */
export function isLong(token: string): boolean {
  return token.length >= SHAPED_CHARACTERS;
}
