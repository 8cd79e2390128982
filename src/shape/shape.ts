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

/**
 * One `@`, a dot in the domain, no part empty: letters `@` letters `.` letters, each as long as its
 * original.
 */
function emailShape(value: string): string | undefined {
  const at = value.indexOf('@');
  if (at <= 0 || value.indexOf('@', at + 1) !== -1) return undefined;
  const dot = value.lastIndexOf('.');
  if (dot <= at + 1 || dot === value.length - 1) return undefined;
  const letters = (from: number, to: number) => 'a'.repeat(characters(value, from, to));
  return `${letters(0, at)}@${letters(at + 1, dot)}.${letters(dot + 1, value.length)}`;
}

function characters(value: string, from: number, to: number): number {
  let count = to - from;
  for (let i = from; i < to; i++) if (isHighHalf(value.charCodeAt(i))) count--;
  return count;
}

function textShape(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && value.charCodeAt(start) === 0x20) start++;
  while (end > start && value.charCodeAt(end - 1) === 0x20) end--;
  let shape = 'a'.repeat(start);
  for (let i = start; i < end; i++) {
    const unit = value.charCodeAt(i);
    shape += characterShape(unit, value, i);
    if (isHighHalf(unit)) i++;
  }
  return shape + 'a'.repeat(value.length - end);
}

/**
 * ASCII digits are drawn as digits; ASCII space and punctuation stay; all else is drawn as a
 * letter.
 */
function characterShape(unit: number, value: string, index: number): string {
  if (unit >= 0x30 && unit <= 0x39) return '0';
  const is_letter = (unit >= 0x61 && unit <= 0x7a) || (unit >= 0x41 && unit <= 0x5a);
  if (is_letter || unit < 0x20 || unit > 0x7e) return 'a';
  return value.charAt(index);
}

function isHighHalf(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

function withFloor(shape: string): string {
  let stems = 1;
  for (let i = 0; i < shape.length && stems < MIN_STEMS; i++) {
    const unit = shape.charCodeAt(i);
    if (unit === 0x61) stems *= 26;
    else if (unit === 0x30) stems *= 10;
  }
  if (stems >= MIN_STEMS) return shape;
  if (stems === 1) return shape + ADDED_LETTERS;
  const last_run = EMAIL_SHAPE.test(shape) ? 'a' : LAST_DRAWN_RUN.exec(shape)![1]!.charAt(0);
  const choices = last_run === 'a' ? 26 : 10;
  let extra = 0;
  for (; stems < MIN_STEMS; stems *= choices) extra++;
  return grow(shape, extra);
}
