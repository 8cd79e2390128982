const MIN_CARD_DIGITS = 12;
const MAX_CARD_DIGITS = 19;
/** Digits in a row, and digits in groups set apart by one space, hyphen or dot. */
const DIGIT_GROUPS = [/\d+/g, /\d(?:[ .-]?\d)*/g];

/**
 * Whether a scanner could take the text for a card number: 12 to 19 digits with a valid check digit
 * (Luhn, ISO/IEC 7812-1 annex B), in a row, in groups, or as all the digits of the text together.
 */
export function looksLikeCard(text: string): boolean {
  if (countDigits(text) < MIN_CARD_DIGITS) return false;
  if (isCardNumber(text.replace(/\D/g, ''))) return true;
  return DIGIT_GROUPS.some((groups) =>
    text.match(groups)!.some((group) => isCardNumber(group.replace(/\D/g, ''))),
  );
}

/** Nearly every text ends here, at a tenth of what a regular expression costs. */
function countDigits(text: string): number {
  let digits = 0;
  for (let i = 0; i < text.length; i++) if (isDigit(text.charCodeAt(i))) digits++;
  return digits;
}

function isDigit(unit: number): boolean {
  return unit >= 0x30 && unit <= 0x39;
}

function isCardNumber(digits: string): boolean {
  return (
    digits.length >= MIN_CARD_DIGITS &&
    digits.length <= MAX_CARD_DIGITS &&
    luhnSum(digits) % 10 === 0
  );
}

function luhnSum(digits: string): number {
  let sum = 0;
  for (let i = 0; i < digits.length; i++) {
    const digit = digits.charCodeAt(digits.length - 1 - i) - 0x30;
    const doubled = digit * 2;
    sum += i % 2 === 0 ? digit : doubled > 9 ? doubled - 9 : doubled;
  }
  return sum;
}
