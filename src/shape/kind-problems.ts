import type { KindSettings, Shape } from './kind-settings.ts';
import { isPhoneCountry } from './phone.ts';

/** A setting that `check` refuses, and why. */
interface KindProblem {
  readonly field: keyof KindSettings;
  readonly reason: string;
}

/** Fewer letters have fewer than MIN_STEMS words. */
const LEAST_LENGTH = 5;
const GREATEST_LENGTH = 64;
/** Fewer digits than any card number, which no draw could avoid. */
const MOST_FIXED = 11;
const MOST_SHOWN = 16;

const KEPT_BY: Readonly<Record<Shape, readonly KindSettings['keep'][]>> = {
  text: ['nothing'],
  email: ['nothing', 'domain', 'top_level_domain'],
  digits: ['nothing'],
  date: ['nothing', 'year'],
  uuid: ['nothing'],
  word: ['nothing'],
};

/** What the settings of a kind have wrong; empty: `kindOf` takes them. */
export function kindProblems(settings: KindSettings): KindProblem[] {
  return [
    ...generalProblems(settings),
    ...digitsProblems(settings),
    ...spellingProblems(settings),
    ...maskProblems(settings),
  ];
}

function* generalProblems(settings: KindSettings): Generator<KindProblem> {
  const { name, shape, keep, length, suffix } = settings;
  if (!/^[a-z][a-z0-9_]{0,31}$/.test(name)) {
    yield { field: 'name', reason: 'must be 1 to 32 of a-z, 0-9 and _, with a letter first' };
  }
  if (!KEPT_BY[shape].includes(keep)) {
    yield { field: 'keep', reason: `of shape ${shape} is one of: ${KEPT_BY[shape].join(', ')}` };
  }
  if (shape === 'word' && !isBetween(length, LEAST_LENGTH, GREATEST_LENGTH)) {
    yield { field: 'length', reason: `must be ${LEAST_LENGTH} to ${GREATEST_LENGTH} letters` };
  }
  if (shape === 'date' && keep === 'year' && !suffix) {
    yield {
      field: 'suffix',
      reason: 'must be true with keep: year, because a year has only 365 days',
    };
  }
}

function* digitsProblems(settings: KindSettings): Generator<KindProblem> {
  const { shape, keep_first: first, keep_last: last, check_digits: checkDigits } = settings;
  const { begins_with: begin } = settings;
  if (shape !== 'digits') {
    if (first !== 0) yield { field: 'keep_first', reason: 'is for shape digits' };
    if (last !== 0) yield { field: 'keep_last', reason: 'is for shape digits' };
    if (begin !== '') yield { field: 'begins_with', reason: 'is for shape digits' };
    if (checkDigits !== 'none') yield { field: 'check_digits', reason: 'is for shape digits' };
    return;
  }
  for (const field of ['keep_first', 'keep_last'] as const) {
    if (!isBetween(settings[field], 0, MOST_FIXED)) {
      yield { field, reason: `must be 0 to ${MOST_FIXED}` };
    }
  }
  if (Math.max(first, begin.length) + last > MOST_FIXED) {
    const field = last > 0 ? 'keep_last' : 'begins_with';
    yield { field, reason: `leaves more than ${MOST_FIXED} digits as they are` };
  }
  if (!/^[0-9A-Za-z]*$/.test(begin)) {
    yield { field: 'begins_with', reason: 'must be digits or letters of ASCII' };
  }
  if (begin !== '' && first > 0) {
    yield { field: 'begins_with', reason: 'takes the place of keep_first: use one of them' };
  }
  if (checkDigits === 'luhn' && /\D/.test(begin)) {
    yield { field: 'begins_with', reason: 'must be digits with check_digits: luhn' };
  }
  if (checkDigits === 'mod97' && !/^[A-Za-z]{0,2}$/.test(begin)) {
    yield { field: 'begins_with', reason: 'must be at most two letters with check_digits: mod97' };
  }
}

function* spellingProblems({ shape, spelling, country }: KindSettings): Generator<KindProblem> {
  const isPhone = spelling.includes('e164');
  if (isPhone && (shape === 'email' || shape === 'date')) {
    yield {
      field: 'spelling',
      reason: `e164 makes telephone numbers, which shape ${shape} refuses`,
    };
  }
  if (country === null) return;
  if (!isPhone) yield { field: 'country', reason: 'is for spelling: e164' };
  if (!isPhoneCountry(country)) {
    yield { field: 'country', reason: 'must be a country of ISO 3166-1 in two capitals, like US' };
  }
}

function* maskProblems({ shape, mask }: KindSettings): Generator<KindProblem> {
  if (mask.show === 'domain' && shape !== 'email') {
    yield { field: 'mask', reason: 'shows a domain, which only shape email has' };
  }
  if (mask.show === 'year' && shape !== 'date') {
    yield { field: 'mask', reason: 'shows a year, which only shape date has' };
  }
  if (mask.show !== 'ends') return;
  if (!isBetween(mask.first, 0, MOST_SHOWN) || !isBetween(mask.last, 0, MOST_SHOWN)) {
    yield { field: 'mask', reason: `must show 0 to ${MOST_SHOWN} characters at each end` };
  }
}

function isBetween(n: number, least: number, most: number): boolean {
  return Number.isInteger(n) && n >= least && n <= most;
}

const REAL_WITHOUT_SUFFIX: Readonly<Partial<Record<Shape, string>>> = {
  text: 'Without suffix, a token can be a real number, name or address of somebody.',
  email: 'Without suffix, a token can be a real address of somebody.',
  digits: 'Without suffix and begins_with, a token can be a real number of somebody.',
  date: 'Without suffix, nothing tells a token from a real date.',
};

/** Where a token could be somebody's real number, address or date. Sentences. */
export function kindWarnings(settings: KindSettings): string[] {
  const real = REAL_WITHOUT_SUFFIX[settings.shape];
  const warnings =
    real === undefined || settings.suffix || settings.begins_with !== '' ? [] : [real];
  if (settings.check_digits === 'luhn') {
    warnings.push('Every token passes as a card number: scanners for card numbers report it.');
  }
  return warnings;
}
