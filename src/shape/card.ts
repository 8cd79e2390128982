const MIN_CARD_DIGITS = 12;
const MAX_CARD_DIGITS = 19;
const ZERO = 0x30;
const SEPARATORS = [' ', '.', '-'];

/** Twice each digit, with the digits of the product added. */
export const DOUBLED = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9];

/**
 * Whether a scanner could mistake the text for a card number: 12 to 19 digits with a valid check
 * digit (Luhn, ISO/IEC 7812-1 annex B). The digits may be in a row, in groups separated by one
 * space, hyphen or dot, or be all digits of the text.
 */
export function looksLikeCard(text: string): boolean {
  // Nearly every text returns here.
  if (countDigits(text) < MIN_CARD_DIGITS) return false;
  let row = 0;
  let groups = 0;
  for (let i = 0; i <= text.length; i++) {
    if (isDigit(text.charCodeAt(i) - ZERO)) continue;
    if (isCard(text.slice(row, i))) return true;
    if (i === row || !SEPARATORS.includes(text.charAt(i))) {
      if (isCard(text.slice(groups, i))) return true;
      groups = i + 1;
    }
    row = i + 1;
  }
  return isCard(text);
}

function isCard(text: string): boolean {
  if (text.length < MIN_CARD_DIGITS) return false;
  const count = countDigits(text);
  return count >= MIN_CARD_DIGITS && count <= MAX_CARD_DIGITS && luhnSum(text) % 10 === 0;
}

/** The sum of the digits of a text, with every second one from the right doubled. */
export function luhnSum(text: string): number {
  let sum = 0;
  let isDoubled = false;
  for (let i = text.length - 1; i >= 0; i--) {
    const digit = text.charCodeAt(i) - ZERO;
    if (!isDigit(digit)) continue;
    sum += isDoubled ? DOUBLED[digit]! : digit;
    isDoubled = !isDoubled;
  }
  return sum;
}

export function countDigits(text: string): number {
  let digits = 0;
  for (let i = 0; i < text.length; i++) if (isDigit(text.charCodeAt(i) - ZERO)) digits++;
  return digits;
}

function isDigit(digit: number): boolean {
  return digit >= 0 && digit <= 9;
}
