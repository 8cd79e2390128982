/**
 * The shape of a value is a template of the stem: `a` where a letter is drawn, `0` where a digit is
 * drawn, every other character kept as it is. `Ann Lee, 12` has the shape `aaa aaa, 00`.
 */

/** Only so many characters (code points) of a value shape its stem. */
export const SHAPED_CHARACTERS = 256;

/**
 * Fewer possible stems than this, and the shape grows: a token space must not be guessable by
 * trying all.
 */
export const MIN_STEMS = 1_000_000;

/** Letters added to a value without any letter or digit to draw. */
const ADDED_LETTERS = 'aaaaaaaa';

const EMAIL_SHAPE = /^a+@a+\.a+$/;
const LAST_DRAWN_RUN = /(a+|0+)([^a0]*)$/;

/**
 * The shape of a value, with its floor: at least MIN_STEMS stems fit it.
 * Lengths are kept in characters (code points).
 */
export function shapeOf(value: string): string {
  const head = firstCharacters(value, SHAPED_CHARACTERS);
  const shape = emailShape(head) ?? textShape(head);
  return withFloor(shape);
}

/**
 * The shape with `extra` more characters in its last drawn run (for an e-mail: in its local part).
 */
export function grow(shape: string, extra: number): string {
  if (extra === 0) return shape;
  if (EMAIL_SHAPE.test(shape)) return 'a'.repeat(extra) + shape;
  return shape.replace(
    LAST_DRAWN_RUN,
    (_, run: string, rest: string) => run + run.charAt(0).repeat(extra) + rest,
  );
}

/** At most `count` code points from the front; never splits a pair of UTF-16 halves. */
function firstCharacters(value: string, count: number): string {
  if (value.length <= count) return value;
  let end = 0;
  for (let taken = 0; taken < count && end < value.length; taken++) {
    end += value.codePointAt(end)! > 0xffff ? 2 : 1;
  }
  return value.slice(0, end);
}

/** Longer than any shape; one buffer for all costs half of strings put together. */
const template = Buffer.alloc(2 * SHAPED_CHARACTERS);
const LETTER = 0x61;
const DIGIT = 0x30;

/**
 * One `@`, a dot in the domain, no part empty: letters `@` letters `.` letters, each as long as its
 * original.
 */
function emailShape(value: string): string | undefined {
  const at = value.indexOf('@');
  if (at <= 0 || value.indexOf('@', at + 1) !== -1) return undefined;
  const dot = value.lastIndexOf('.');
  if (dot <= at + 1 || dot === value.length - 1) return undefined;
  let length = 0;
  for (let i = 0; i < value.length; i++) {
    if (isLowHalf(value.charCodeAt(i))) continue;
    template[length++] = i === at || i === dot ? value.charCodeAt(i) : LETTER;
  }
  return template.toString('latin1', 0, length);
}

function textShape(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && value.charCodeAt(start) === 0x20) start++;
  while (end > start && value.charCodeAt(end - 1) === 0x20) end--;
  let length = 0;
  for (let i = 0; i < value.length; i++) {
    const unit = value.charCodeAt(i);
    if (isLowHalf(unit)) continue;
    template[length++] = i < start || i >= end ? LETTER : characterShape(unit);
  }
  return template.toString('latin1', 0, length);
}

/**
 * ASCII digits are drawn as digits; ASCII space and punctuation stay; all else is drawn as a
 * letter.
 */
function characterShape(unit: number): number {
  if (unit >= 0x30 && unit <= 0x39) return DIGIT;
  const isLetter = (unit >= 0x61 && unit <= 0x7a) || (unit >= 0x41 && unit <= 0x5a);
  return isLetter || unit < 0x20 || unit > 0x7e ? LETTER : unit;
}

/** The second half of a pair: the first one stands for the character. */
function isLowHalf(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}

function withFloor(shape: string): string {
  let stems = 1;
  for (let i = 0; i < shape.length && stems < MIN_STEMS; i++) {
    const unit = shape.charCodeAt(i);
    if (unit === LETTER) stems *= 26;
    else if (unit === DIGIT) stems *= 10;
  }
  if (stems >= MIN_STEMS) return shape;
  if (stems === 1) return shape + ADDED_LETTERS;
  const lastRun = EMAIL_SHAPE.test(shape) ? 'a' : LAST_DRAWN_RUN.exec(shape)![1]!.charAt(0);
  const choices = lastRun === 'a' ? 26 : 10;
  let extra = 0;
  for (; stems < MIN_STEMS; stems *= choices) extra++;
  return grow(shape, extra);
}
