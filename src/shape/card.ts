const MIN_CARD_DIGITS = 12;
const MAX_CARD_DIGITS = 19;
const ZERO = 0x30;
const SEPARATORS = ' .-';

/**
 * Whether a scanner could take the text for a card number: 12 to 19 digits with a valid check digit
 * (Luhn, ISO/IEC 7812-1 annex B), in a row, in groups set apart by one space, hyphen or dot, or as
 * all the digits of the text together.
 */
export function looksLikeCard(text: string): boolean {
  // Nearly every text ends here.
  if (countDigits(text) < MIN_CARD_DIGITS) return false;
  const all = new DigitRow();
  const row = new DigitRow();
  const groups = new DigitRow();
  let was_separator = false;
  for (let i = 0; i < text.length; i++) {
    const digit = text.charCodeAt(i) - ZERO;
    if (isDigit(digit)) {
      for (const one of [all, row, groups]) one.add(digit);
      was_separator = false;
      continue;
    }
    const is_separator: boolean = SEPARATORS.includes(text.charAt(i)) && !was_separator;
    if (row.isCard() || (!is_separator && groups.isCard())) return true;
    row.clear();
    if (!is_separator) groups.clear();
    was_separator = is_separator;
  }
  return all.isCard() || row.isCard() || groups.isCard();
}

/**
 * The check digit of a growing row of digits. Every second digit from the right counts double:
 * until the end is known, both sums are kept.
 */
class DigitRow {
  #length = 0;
  /** Sum when the digits at even places from the left count double, and at odd ones. */
  #even_doubled = 0;
  #odd_doubled = 0;

  add(digit: number): void {
    const doubled = digit < 5 ? 2 * digit : 2 * digit - 9;
    const is_even = this.#length++ % 2 === 0;
    this.#even_doubled += is_even ? doubled : digit;
    this.#odd_doubled += is_even ? digit : doubled;
  }

  isCard(): boolean {
    if (this.#length < MIN_CARD_DIGITS || this.#length > MAX_CARD_DIGITS) return false;
    return (this.#length % 2 === 0 ? this.#even_doubled : this.#odd_doubled) % 10 === 0;
  }

  clear(): void {
    this.#length = 0;
    this.#even_doubled = 0;
    this.#odd_doubled = 0;
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
