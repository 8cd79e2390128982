/**
 * The shape of a value is the template of its stem. `a` draws a letter, `0` draws a digit, and
 * every other character is kept. `Ann Lee, 12` has the shape `aaa aaa, 00`. In the shapes of kinds,
 * `A` draws an upper-case letter, and a letter or digit that stays has KEPT added to its code.
 */

/** Only the first characters (code points) of a value shape its stem. */
export const SHAPED_CHARACTERS = 256;

/** A shape with fewer possible stems grows, so that nobody can guess a token by trying them all. */
export const MIN_STEMS = 1_000_000;

/** Added to a value without any letter or digit to draw. */
const ADDED_LETTERS = 'aaaaaaaa';

const EMAIL_SHAPE = /^a+@a+\.a+$/;
const LAST_DRAWN_RUN = /(a+|A+|0+)([^aA0]*)$/;

/** Added to the ASCII code of a letter or digit that a shape keeps. */
export const KEPT = 0x80;

/**
 * The shape of a value, grown until at least MIN_STEMS stems fit it. Lengths count characters (code
 * points).
 */
export function shapeOf(value: string): string {
  const head = firstCharacters(value, SHAPED_CHARACTERS);
  const shape = emailShape(head) ?? textShape(head);
  return withFloor(shape);
}

/**
 * The shape as programs made it before 0.1.0: a tab or Unicode space was a letter, and a text with
 * spaces could be an e-mail. Only its tokens still exist.
 */
export function olderShapeOf(value: string): string {
  const shape = shapeOf(value.replace(/\s/g, 'a'));
  return EMAIL_SHAPE.test(shape) ? shape : shapeOf(value.replace(/[^\S ]/g, 'a'));
}

/**
 * The shape with `extra` more characters in its last drawn run. In the shape of an e-mail, the
 * local part grows.
 */
export function grow(shape: string, extra: number): string {
  if (extra === 0) return shape;
  if (EMAIL_SHAPE.test(shape)) return 'a'.repeat(extra) + shape;
  return shape.replace(
    LAST_DRAWN_RUN,
    (_, run: string, rest: string) => run + run.charAt(0).repeat(extra) + rest,
  );
}

/** At most the first `count` code points. Never splits a surrogate pair. */
export function firstCharacters(value: string, count: number): string {
  if (value.length <= count) return value;
  let end = 0;
  for (let taken = 0; taken < count && end < value.length; taken++) {
    end += value.codePointAt(end)! > 0xffff ? 2 : 1;
  }
  return value.slice(0, end);
}

/** Longer than any shape. One shared buffer costs half as much as concatenated strings. */
const template = Buffer.alloc(2 * SHAPED_CHARACTERS);
const LETTER = 0x61;
const UPPER_LETTER = 0x41;
const DIGIT = 0x30;
const SPACE = 0x20;
const TAB = 0x09;

/**
 * Matches one `@`, a dot in the domain, no empty part and no space. The shape is letters `@`
 * letters `.` letters, each part as long as in the value.
 */
export function emailShape(value: string): string | undefined {
  const at = value.indexOf('@');
  if (at <= 0 || value.indexOf('@', at + 1) !== -1) return undefined;
  const dot = value.lastIndexOf('.');
  if (dot <= at + 1 || dot === value.length - 1) return undefined;
  let length = 0;
  for (let i = 0; i < value.length; i++) {
    const unit = value.charCodeAt(i);
    if (isSpace(unit)) return undefined;
    if (isLowHalf(unit)) continue;
    template[length++] = i === at || i === dot ? unit : LETTER;
  }
  return template.toString('latin1', 0, length);
}

function textShape(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && isSpace(value.charCodeAt(start))) start++;
  while (end > start && isSpace(value.charCodeAt(end - 1))) end--;
  let length = 0;
  for (let i = 0; i < value.length; i++) {
    const unit = value.charCodeAt(i);
    if (isLowHalf(unit)) continue;
    template[length++] = i < start || i >= end ? LETTER : characterShape(unit);
  }
  return template.toString('latin1', 0, length);
}

/**
 * ASCII digits become digits. Every space becomes an ASCII space, and ASCII punctuation stays.
 * Everything else becomes a letter.
 */
function characterShape(unit: number): number {
  if (unit >= 0x30 && unit <= 0x39) return DIGIT;
  const isLetter = (unit >= 0x61 && unit <= 0x7a) || (unit >= 0x41 && unit <= 0x5a);
  if (isLetter) return LETTER;
  if (isSpace(unit)) return SPACE;
  return unit < 0x20 || unit > 0x7e ? LETTER : unit;
}

/** A tab, or a space of Unicode (category Zs): people see no difference between them. */
export function isSpace(unit: number): boolean {
  if (unit < 0xa0) return unit === SPACE || unit === TAB;
  return (
    unit === 0xa0 ||
    unit === 0x1680 ||
    (unit >= 0x2000 && unit <= 0x200a) ||
    unit === 0x202f ||
    unit === 0x205f ||
    unit === 0x3000
  );
}

/** The first half of a surrogate pair counts as the character, so the second half is skipped. */
function isLowHalf(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}

/** How many stems fit a shape, counted no further than MIN_STEMS. */
export function stemsOf(shape: string): number {
  let stems = 1;
  for (let i = 0; i < shape.length && stems < MIN_STEMS; i++) {
    const unit = shape.charCodeAt(i);
    if (unit === DIGIT) stems *= 10;
    else if (unit === LETTER || unit === UPPER_LETTER) stems *= 26;
  }
  return stems;
}

/** The shape, grown until MIN_STEMS stems fit it. */
export function withFloor(shape: string): string {
  let stems = stemsOf(shape);
  if (stems >= MIN_STEMS) return shape;
  if (stems === 1) return shape + ADDED_LETTERS;
  const lastRun = EMAIL_SHAPE.test(shape) ? 'a' : LAST_DRAWN_RUN.exec(shape)![1]!.charAt(0);
  const choices = lastRun === '0' ? 10 : 26;
  let extra = 0;
  for (; stems < MIN_STEMS; stems *= choices) extra++;
  return grow(shape, extra);
}
