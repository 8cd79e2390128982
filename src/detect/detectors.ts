import { isIP } from 'node:net';
import { looksLikeCard } from '../shape/card.ts';
import { appended } from '../shape/digits.ts';
import { phoneFinder } from '../shape/phone.ts';

/** A stretch of a text, in UTF-16 units. */
export interface Stretch {
  readonly from: number;
  readonly to: number;
}

/** Finds stretches in a text, in time that grows with its length. */
export type Detector = (text: string) => Iterable<Stretch>;

/** The detectors that a policy can name. Of equally long stretches, the first one's counts. */
export const DETECTORS = ['url', 'email', 'iban', 'card', 'ip', 'phone'] as const;
export type DetectorName = (typeof DETECTORS)[number];

/** @param country of telephone numbers without a country code; null: there are none */
export function detectorOf(name: DetectorName, country: string | null): Detector {
  return name === 'phone' ? phoneDetector(country) : SIMPLE[name];
}

const SIMPLE: Readonly<Record<Exclude<DetectorName, 'phone'>, Detector>> = {
  url: urls,
  email: emails,
  iban: (text) => numbersIn(text, IBAN),
  card: (text) => numbersIn(text, CARD),
  ip: addresses,
};

/**
 * The bounds of the classes bound the time, too: each start of a URL is read once. The bound on its
 * length splits no surrogate pair.
 */
const URL =
  /(?<![a-z0-9])[a-z][a-z0-9+.-]{1,30}:\/\/[^\s/?#@<>"]{1,256}@[^\s<>"]{1,2000}(?![\udc00-\udfff])/gi;
const CLOSING = /[.,;:!?)\]}'*]+$/;

/** URLs with a user or password. */
function* urls(text: string): Iterable<Stretch> {
  for (const { 0: url, index } of text.matchAll(URL))
    yield { from: index, to: index + url.replace(CLOSING, '').length };
}

const LOCAL_PART = /[\p{L}\p{M}\p{N}.!#$%'^+_~-]{1,64}$/u;
/** Characters that stand beside an address rather than in it. */
const BEFORE_LOCAL = /^[.'!#$%^~-]+/;
const DOMAIN = /(?:[\p{L}\p{M}\p{N}-]{1,63}\.){1,8}[\p{L}\p{M}][\p{L}\p{M}\p{N}-]{1,62}/uy;

/**
 * From each `@`, because a search for the part before it would take the square of its length. It
 * goes back to the last one at most: else a text of `@` takes twenty times as long.
 */
function* emails(text: string): Iterable<Stretch> {
  let end = 0;
  for (let at = text.indexOf('@'); at !== -1; at = text.indexOf('@', at + 1)) {
    const before = LOCAL_PART.exec(text.slice(Math.max(end, at - 64), at))?.[0];
    const local = before?.replace(BEFORE_LOCAL, '');
    end = at + 1;
    if (!local) continue;
    DOMAIN.lastIndex = at + 1;
    const domain = DOMAIN.exec(text)?.[0].replace(/-+$/, '');
    if (domain === undefined) continue;
    yield { from: at - local.length, to: at + 1 + domain.length };
  }
}

/** The end of an escape of JSON, as a text can have it that quotes JSON. Its letter is no word. */
const ESCAPE = String.raw`(?<=\\(?:[bfnrt]|u[\da-fA-F]{4}))`;
/** No word goes on here. */
const BEGINS = String.raw`(?:(?<![\p{L}\p{N}])|${ESCAPE})`;

const BLANKS = ' \u00a0\u2009\u202f';
/** Between the digits of a number, one at a time. Word processors have their own hyphens. */
const SEPARATORS = `${BLANKS}\u2010\u2011\u2012\u2013-`;
const ALPHANUMERIC = /[\p{L}\p{N}]/u;

/** A number of letters and digits that its check digits prove. */
interface Checked {
  /** Where one may begin. */
  readonly start: RegExp;
  readonly character: RegExp;
  readonly least: number;
  readonly most: number;
  readonly isValid: (characters: string) => boolean;
}

const CARD: Checked = {
  start: new RegExp(String.raw`${BEGINS}[2-689]\d`, 'gu'),
  character: /\d/,
  ...{ least: 13, most: 19, isValid: looksLikeCard },
};
const IBAN: Checked = {
  start: new RegExp(String.raw`${BEGINS}[A-Z]{2} ?\d{2}`, 'giu'),
  character: /[A-Z0-9]/i,
  ...{ least: 15, most: 34, isValid: passesMod97 },
};

function* numbersIn(text: string, checked: Checked): Iterable<Stretch> {
  let last = 0;
  for (const { index } of text.matchAll(checked.start)) {
    const to = index < last ? undefined : longestFrom(text, index, checked);
    if (to === undefined) continue;
    yield { from: index, to };
    last = to;
  }
}

/** The end of the longest number that begins here. */
function longestFrom(text: string, from: number, checked: Checked): number | undefined {
  const { character, least, most, isValid } = checked;
  let characters = '';
  let end: number | undefined;
  for (let i = from; characters.length < most; i++) {
    const [one = '', next = ''] = [text[i], text[i + 1]];
    if (character.test(one)) {
      characters += one;
      const isEnd = characters.length >= least && !ALPHANUMERIC.test(next);
      if (isEnd && isValid(characters)) end = i + 1;
    } else if (!SEPARATORS.includes(one) || !character.test(next)) break;
  }
  return end;
}

/** Every IBAN has more. A word of the text behind a shorter code would pass now and then. */
const LEAST_IBAN_DIGITS = 10;

/** ISO 13616: the first four characters come last. */
function passesMod97(iban: string): boolean {
  let rest = 0;
  for (let i = 4; i < iban.length + 4; i++) rest = appended(rest, iban.charCodeAt(i % iban.length));
  return rest === 1 && iban.replace(/\D/g, '').length >= LEAST_IBAN_DIGITS;
}

/**
 * Six to 17 digits in groups, with at most two separators between groups. `x` begins an extension.
 */
const PHONE = new RegExp(
  String.raw`(?:(?<![\p{L}\p{N}+])|${ESCAPE})(?:\+|\(\+?)?\d(?:[()./${SEPARATORS}]{0,2}\d){5,16}(?!(?!x\d)[\p{L}\p{N}])`,
  'gu',
);
/** Perhaps with the hour. */
const DATE = /^(?:\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}[./-]\d{1,2}[./-]\d{1,2})(?: \d{1,2})?$/;
/** Up to a space: behind a hyphen, another number goes on, such as an ISBN. */
const FIRST_GROUP = new RegExp(`^[^${BLANKS}]+[${BLANKS}]+`);

function phoneDetector(country: string | null): Detector {
  const isPhone = phoneFinder(country);
  return function* phones(text) {
    for (const { 0: run, index } of text.matchAll(PHONE)) {
      // Other numbers can be before and behind it.
      for (let from = 0; from < run.length; ) {
        const to = phoneEnd(run.slice(from), isPhone);
        if (to !== undefined) {
          const opens = run[from] === '(' && !run.slice(from, from + to).includes(')');
          yield { from: index + from + (opens ? 1 : 0), to: index + from + to };
        }
        from += to ?? FIRST_GROUP.exec(run.slice(from))?.[0].length ?? run.length;
      }
    }
  };
}

/** Groups of digits behind a number, at most so many, are not a part of it. */
const MAX_CUT = 3;

function phoneEnd(run: string, isPhone: ReturnType<typeof phoneFinder>): number | undefined {
  let digits = run.replace(/\D/g, '');
  let end = run.length;
  for (let i = 0; i <= MAX_CUT && end > 0; i++) {
    if (isPhone(run, digits) && !DATE.test(run.slice(0, end))) return end;
    const group = endOf(run, end, isDigit);
    digits = digits.slice(0, group - end);
    end = endOf(run, group, (unit) => !isDigit(unit));
  }
  return undefined;
}

/** The offset before the last of these characters in a row. */
function endOf(text: string, to: number, isOne: (unit: number) => boolean): number {
  let from = to;
  while (from > 0 && isOne(text.charCodeAt(from - 1))) from--;
  return from;
}

function isDigit(unit: number): boolean {
  return unit >= 0x30 && unit <= 0x39;
}

const ADDRESS = new RegExp(String.raw`(?:(?<![\w.:])|${ESCAPE})[0-9a-f.:]{2,51}(?![\w:])`, 'gi');
const PORT = /:\d{1,5}$/;

/** IPv4 and IPv6 addresses. */
function* addresses(text: string): Iterable<Stretch> {
  for (const { 0: found, index } of text.matchAll(ADDRESS)) {
    const whole = found.replace(/\.+$/, '');
    const address = isIP(whole) === 0 ? whole.replace(PORT, '') : whole;
    if (isIP(address) !== 0) yield { from: index, to: index + address.length };
  }
}
