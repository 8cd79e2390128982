import { countDigits, DOUBLED, luhnSum } from './card.ts';
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
const UPPER_LETTER = 0x41;
const LETTER = 0x61;
/** Clears the bit that a lower-case letter has. */
const UPPER_CASE = 0x5f;
/** A digit that is computed, not drawn. */
const CHECK = ZERO + KEPT;

/** No character of ASCII that can be printed, and no tab or space of Unicode. */
const STRANGE = /[^\t -~\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]/;
/** Two letters, two digits and more, with punctuation anywhere. */
const IBAN = /^[\W_]*[A-Za-z][\W_]*[A-Za-z][\W_]*\d[\W_]*\d[\W_]*[^\W_]/;

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
      const reason = problemOf(value, checkDigits);
      if (reason !== undefined) return { reason };
      keep(settings, value, scan(value));
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

function problemOf(value: string, check: CheckDigits): string | undefined {
  if (value.length > SHAPED_CHARACTERS) return `has more than ${SHAPED_CHARACTERS} characters`;
  if (STRANGE.test(value))
    return 'has a character that is no digit, letter or punctuation of ASCII';
  if (isSpace(value.charCodeAt(0)) || isSpace(value.charCodeAt(value.length - 1)))
    return 'begins or ends with a space';
  if (!/\d/.test(value)) return 'has no digit';
  if (check === 'luhn' && /[A-Za-z]/.test(value)) return 'has a letter, which luhn refuses';
  if (check === 'mod97' && !IBAN.test(value))
    return 'does not begin with two letters and two check digits';
  return undefined;
}

/** Writes shape and places. Returns the number of letters and digits. */
function scan(value: string): number {
  let count = 0;
  for (let i = 0; i < value.length; i++) {
    const unit = value.charCodeAt(i);
    const drawn = drawnFor(unit);
    shape[i] = drawn ?? (isSpace(unit) ? SPACE : unit);
    if (drawn !== undefined) places[count++] = i;
  }
  return count;
}

function drawnFor(unit: number): number | undefined {
  if (unit >= ZERO && unit <= ZERO + 9) return ZERO;
  if (unit >= UPPER_LETTER && unit < UPPER_LETTER + 26) return UPPER_LETTER;
  return unit >= LETTER && unit < LETTER + 26 ? LETTER : undefined;
}

/** Writes the letters and digits that every token has into the shape. */
function keep(settings: KindSettings, value: string, count: number): void {
  const { keep_first: first, keep_last: last, begins_with: begin } = settings;
  for (let k = 0; k < count; k++) {
    const isKept = k < first || k >= count - last;
    const unit = isKept ? value.charCodeAt(places[k]!) : begin.charCodeAt(k);
    if (unit >= 0) shape[places[k]!] = unit + KEPT;
  }
}

/** mod97: the places 3 and 4, also where they were kept. luhn: the last drawn digit. */
function placeChecks(check: CheckDigits, length: number): readonly number[] {
  if (check === 'none') return [];
  const last = shape.lastIndexOf(ZERO, length - 1);
  const checks = check === 'mod97' ? [places[2]!, places[3]!] : last === -1 ? [] : [last];
  for (const place of checks) shape[place] = CHECK;
  return check === 'mod97' ? checks : checks.map((place) => length - place);
}

/**
 * The text with another digit for the 0 at `place`, so that all digits pass Luhn (ISO/IEC 7812-1,
 * annex B).
 */
function withLuhn(text: string, place: number): string {
  const missing = (10 - (luhnSum(text) % 10)) % 10;
  const after = text.slice(place + 1);
  const isDoubled = countDigits(after) % 2 === 1;
  return text.slice(0, place) + (isDoubled ? DOUBLED.indexOf(missing) : missing) + after;
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
function appended(rest: number, unit: number): number {
  if (unit >= ZERO && unit <= ZERO + 9) return (rest * 10 + unit - ZERO) % 97;
  const letter = unit & UPPER_CASE;
  return letter >= UPPER_LETTER && letter < UPPER_LETTER + 26
    ? (rest * 100 + letter - UPPER_LETTER + 10) % 97
    : rest;
}
