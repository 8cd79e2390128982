import { notationOf } from './date.ts';
import type { KindSettings } from './kind-settings.ts';
import { emailShape, firstCharacters, SHAPED_CHARACTERS } from './shape.ts';

/** Also of a kind that the policy does not have any more. */
export const HIDDEN = '****';
const PUNCTUATION = /[^0-9A-Za-z]+/g;
/** Begins with a letter or digit, and has one more. */
const TWO_OR_MORE = /^[\p{L}\p{N}].*[\p{L}\p{N}]/su;
/** No control or format characters, and no mark without its letter. */
const VISIBLE = /^[\p{L}\p{N}\p{P}\p{S}][\p{L}\p{M}\p{N}\p{P}\p{S} ]*$/u;

/**
 * The value as a masked response shows it. Takes any string, because the settings of a kind can
 * change after a value was stored.
 */
export function maskOf({ mask, shape }: KindSettings): (value: string) => string {
  if (mask.show !== 'ends') return OF_WHOLE[mask.show];
  const ends = endsMask(mask.first, mask.last);
  return shape === 'digits' ? (value) => ends(value.replace(PUNCTUATION, '')) : ends;
}

const OF_WHOLE = { nothing: () => HIDDEN, domain: maskedEmail, year: maskedDate };

/**
 * `41 **** 4242`. Shows an end completely or not at all, so that a short value does not tell its
 * length. Both ends together have at most half as many characters (code points) as the value has
 * letters and digits; the first end gives way.
 */
function endsMask(first: number, last: number): (value: string) => string {
  const mayShowLast = atLeast(2 * last);
  const mayShowBoth = atLeast(2 * (first + last));
  return (value) => {
    const tail = mayShowLast.test(value) ? lastCharacters(value, last) : '';
    const head = mayShowBoth.test(value) ? firstCharacters(value, first) : '';
    return [head, HIDDEN, tail].filter((part) => VISIBLE.test(part)).join(' ');
  };
}

/** Matches a text with so many letters and digits. */
function atLeast(count: number): RegExp {
  return new RegExp(`^(?:[^\\p{L}\\p{N}]*[\\p{L}\\p{N}]){${count}}`, 'u');
}

function lastCharacters(value: string, count: number): string {
  const characters = [...value.slice(Math.max(0, value.length - 2 * count))];
  return characters.slice(characters.length - count).join('');
}

/** `a***@example.com`, or `***@example.com` when there is one letter or digit before the `@`. */
function maskedEmail(value: string): string {
  if (value.length > SHAPED_CHARACTERS || emailShape(value) === undefined) return HIDDEN;
  const [local, domain] = value.split('@') as [string, string];
  if (!VISIBLE.test(domain)) return HIDDEN;
  return `${TWO_OR_MORE.test(local) ? firstCharacters(local, 1) : ''}***@${domain}`;
}

/** The year as it is written. */
function maskedDate(value: string): string {
  const { layout, year } = notationOf(value) ?? {};
  if (layout?.yearPlace === undefined) return HIDDEN;
  return String(year).padStart(layout.widths[layout.yearPlace]!, '0');
}
