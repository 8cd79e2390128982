const MIN_CARD_DIGITS = 12;
const MAX_CARD_DIGITS = 19;
const ZERO = 0x30;
const SEPARATORS = ' .-';

/**
 * Whether a scanner could mistake the text for a card number: 12 to 19 digits with a valid check
 * digit (Luhn, ISO/IEC 7812-1 annex B). The digits may be in a row, in groups separated by one
 * space, hyphen or dot, or be all digits of the text.
 */
export function looksLikeCard(text: string): boolean {
  // Nearly every text returns here.
  if (countDigits(text) < MIN_CARD_DIGITS) return false;
  const all = new DigitRow();
  const row = new DigitRow();
  const groups = new DigitRow();
  let wasSeparator = false;
  for (let i = 0; i < text.length; i++) {
    const digit = text.charCodeAt(i) - ZERO;
    if (isDigit(digit)) {
      for (const one of [all, row, groups]) one.add(digit);
      wasSeparator = false;
      continue;
    }
    const isSeparator: boolean = SEPARATORS.includes(text.charAt(i)) && !wasSeparator;
    if (row.isCard() || (!isSeparator && groups.isCard())) return true;
    row.clear();
    if (!isSeparator) groups.clear();
    wasSeparator = isSeparator;
  }
  return all.isCard() || row.isCard() || groups.isCard();
}

/**
 * The check digit of a growing row of digits. Luhn doubles every second digit from the right, so
 * both sums are kept until the end is known.
 */
class DigitRow {
  #length = 0;
  /** Sum with the even places (from the left) doubled; the other sum doubles the odd places. */
  #evenDoubled = 0;
  #oddDoubled = 0;

  add(digit: number): void {
    const doubled = digit < 5 ? 2 * digit : 2 * digit - 9;
    const isEven = this.#length++ % 2 === 0;
    this.#evenDoubled += isEven ? doubled : digit;
    this.#oddDoubled += isEven ? digit : doubled;
  }

  isCard(): boolean {
    if (this.#length < MIN_CARD_DIGITS || this.#length > MAX_CARD_DIGITS) return false;
    return (this.#length % 2 === 0 ? this.#evenDoubled : this.#oddDoubled) % 10 === 0;
  }

  clear(): void {
    this.#length = 0;
    this.#evenDoubled = 0;
    this.#oddDoubled = 0;
  }
}

function countDigits(text: string): number {
  let digits = 0;
  for (let i = 0; i < text.length; i++) if (isDigit(text.charCodeAt(i) - ZERO)) digits++;
  return digits;
}

function isDigit(digit: number): boolean {
  return digit >= 0 && digit <= 9;
}
