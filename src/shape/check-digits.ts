const ZERO = 0x30;
const A = 0x41;
const Z = 0x5a;
/** Clears the bit that a lower-case letter has. */
const UPPER_CASE = 0x5f;

/** The text with the digit at `place` that makes all digits pass Luhn (ISO/IEC 7812-1, annex B). */
export function withLuhn(text: string, place: number): string {
  let sum = 0;
  let isDoubled = false;
  let isPlaceDoubled = false;
  for (let i = text.length - 1; i >= 0; i--) {
    const digit = text.charCodeAt(i) - ZERO;
    if (digit < 0 || digit > 9) continue;
    if (i === place) isPlaceDoubled = isDoubled;
    else sum += isDoubled ? doubled(digit) : digit;
    isDoubled = !isDoubled;
  }
  const missing = (10 - (sum % 10)) % 10;
  const digit = isPlaceDoubled ? halved(missing) : missing;
  return text.slice(0, place) + digit + text.slice(place + 1);
}

function doubled(digit: number): number {
  return digit < 5 ? 2 * digit : 2 * digit - 9;
}

/** The digit that `doubled` turns into this one. */
function halved(digit: number): number {
  return digit % 2 === 0 ? digit / 2 : (digit + 9) / 2;
}

/**
 * The text with such digits at `first` and `second`, the places 3 and 4 of its letters and digits,
 * that it passes MOD 97-10 (ISO/IEC 7064) as an IBAN (ISO 13616) does: 02 to 98.
 */
export function withMod97(text: string, first: number, second: number): string {
  let rest = 0;
  for (let i = second + 1; i < text.length; i++) rest = appended(rest, text.charCodeAt(i));
  for (let i = 0; i < first; i++) rest = appended(rest, text.charCodeAt(i));
  const digits = `${98 - ((rest * 100) % 97)}`.padStart(2, '0');
  const between = text.slice(first + 1, second);
  return text.slice(0, first) + digits[0] + between + digits[1] + text.slice(second + 1);
}

/** The remainder by 97 of a number, with a digit more, or with two for a letter (A: 10, Z: 35). */
function appended(rest: number, unit: number): number {
  if (unit >= ZERO && unit <= ZERO + 9) return (rest * 10 + unit - ZERO) % 97;
  const letter = unit & UPPER_CASE;
  return letter >= A && letter <= Z ? (rest * 100 + letter - A + 10) % 97 : rest;
}
