import type { CheckDigits, KindSettings } from './kind-settings.ts';
import { grow, isSpace, KEPT, MIN_STEMS, SHAPED_CHARACTERS, stemsOf, withFloor } from './shape.ts';
import { drawStem, type Form } from './token.ts';

interface DigitsPlan {
  readonly template: string;
  /** Places of the check digits of mod97 in the template; of luhn, counted from its end. */
  readonly checks: readonly number[];
}

const ZERO = 0x30;
const SPACE = 0x20;
const TILDE = 0x7e;
const UPPER_LETTER = 0x41;
const LETTER = 0x61;
/** Clears the bit that a lower-case letter has. */
const UPPER_CASE = 0x5f;
/** A digit that is computed, not drawn. */
const CHECK = ZERO + KEPT;

/** The shape of a value while it is made, and the places of its letters and digits. */
const shape = Buffer.alloc(SHAPED_CHARACTERS);
const places = new Uint16Array(SHAPED_CHARACTERS);

/**
 * Numbers with ASCII punctuation: cards, IBANs, telephone numbers. Draws a digit for a digit, and a
 * letter of the same case for a letter. Stems grow in the last drawn run.
 */
export function digitsForm(settings: KindSettings): Form<DigitsPlan> {
  const { name, check_digits: checkDigits, suffix } = settings;
  const keepsEnds = settings.keep_first + settings.keep_last > 0;
  const free = checkDigits === 'luhn' ? 7 : 6;
  return {
    plan(value) {
      const count = scan(value);
      if (typeof count === 'string') return { reason: count };
      const problem = layoutProblem(checkDigits, value, count);
      if (problem !== undefined) return { reason: problem };
      keepEnds(settings, value, count);
      const checks = placeChecks(checkDigits, value.length);
      const template = shape.toString('latin1', 0, value.length);
      const stems = stemsOf(template);
      if (stems >= MIN_STEMS) return { template, checks };
      // With kept ends, a token of a short value would show most of it.
      if (suffix && !keepsEnds && stems > 1) return { template: withFloor(template), checks };
      return { reason: `has too few digits for kind ${name}: ${free} must be free` };
    },
    stem({ template, checks }, extra, blocks) {
      const stem = drawStem(grow(template, extra), blocks);
      const [first, second] = checks;
      if (first === undefined) return stem;
      return second === undefined
        ? withLuhn(stem, stem.length - first)
        : withMod97(stem, first, second);
    },
  };
}

function layoutProblem(check: CheckDigits, value: string, count: number): string | undefined {
  if (check === 'luhn' && /[A-Za-z]/.test(value)) return 'has a letter, which luhn refuses';
  if (check !== 'mod97') return undefined;
  const [, , third, fourth] = places;
  const isLayout =
    count > 4 && isLetter(0) && isLetter(1) && shape[third!] === ZERO && shape[fourth!] === ZERO;
  return isLayout ? undefined : 'does not begin with two letters and two check digits';
}

function keepEnds(settings: KindSettings, value: string, count: number): void {
  const { keep_first: first, keep_last: last, begins_with: begin } = settings;
  const keep = (k: number, unit: number) => {
    shape[places[k]!] = unit + KEPT;
  };
  for (let k = 0; k < Math.min(begin.length, count); k++) keep(k, begin.charCodeAt(k));
  for (let k = 0; k < Math.min(first, count); k++) keep(k, value.charCodeAt(places[k]!));
  for (let k = Math.max(0, count - last); k < count; k++) keep(k, value.charCodeAt(places[k]!));
}

/** mod97: the places 3 and 4, also where they were kept. luhn: the last drawn digit. */
function placeChecks(check: CheckDigits, length: number): readonly number[] {
  if (check === 'none') return [];
  const last = shape.lastIndexOf(ZERO, length - 1);
  const checks = check === 'mod97' ? [places[2]!, places[3]!] : last === -1 ? [] : [last];
  for (const place of checks) shape[place] = CHECK;
  return check === 'mod97' ? checks : checks.map((place) => length - place);
}

/** Writes shape and places. The number of letters and digits, or why the value is refused. */
function scan(value: string): number | string {
  if (value.length > SHAPED_CHARACTERS) return `has more than ${SHAPED_CHARACTERS} characters`;
  let count = 0;
  let hasDigit = false;
  for (let i = 0; i < value.length; i++) {
    const unit = value.charCodeAt(i);
    const drawn = drawnFor(unit);
    const isBlank = isSpace(unit);
    shape[i] = drawn ?? (isBlank ? SPACE : unit);
    if (drawn !== undefined) places[count++] = i;
    else if (isBlank) {
      if (i === 0 || i === value.length - 1) return 'begins or ends with a space';
    } else if (unit < SPACE || unit > TILDE) {
      return 'has a character that is no digit, letter or punctuation of ASCII';
    }
    hasDigit ||= drawn === ZERO;
  }
  return hasDigit ? count : 'has no digit';
}

function drawnFor(unit: number): number | undefined {
  if (unit >= ZERO && unit <= ZERO + 9) return ZERO;
  if (unit >= UPPER_LETTER && unit < UPPER_LETTER + 26) return UPPER_LETTER;
  return unit >= LETTER && unit < LETTER + 26 ? LETTER : undefined;
}

/** Whether the letter or digit of this number is a letter. */
function isLetter(k: number): boolean {
  const drawn = shape[places[k]!];
  return drawn === LETTER || drawn === UPPER_LETTER;
}

/** The text with the digit at `place` that makes all digits pass Luhn (ISO/IEC 7812-1, annex B). */
function withLuhn(text: string, place: number): string {
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
function withMod97(text: string, first: number, second: number): string {
  let rest = 0;
  for (let i = second + 1; i < text.length; i++) rest = appended(rest, text.charCodeAt(i));
  for (let i = 0; i < first; i++) rest = appended(rest, text.charCodeAt(i));
  const digits = `${98 - ((rest * 100) % 97)}`.padStart(2, '0');
  const between = text.slice(first + 1, second);
  return text.slice(0, first) + digits[0] + between + digits[1] + text.slice(second + 1);
}

/** The remainder by 97 of a number, with a digit more, or with two for a letter (A: 10, Z: 35). */
export function appended(rest: number, unit: number): number {
  if (unit >= ZERO && unit <= ZERO + 9) return (rest * 10 + unit - ZERO) % 97;
  const letter = unit & UPPER_CASE;
  return letter >= UPPER_LETTER && letter < UPPER_LETTER + 26
    ? (rest * 100 + letter - UPPER_LETTER + 10) % 97
    : rest;
}
