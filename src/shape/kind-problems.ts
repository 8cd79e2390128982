import { type KindSettings, MAX_FIXED, type Shape } from './kind-settings.ts';
import { isPhoneCountry } from './phone.ts';

/** A setting that does not go with another, and why. */
interface KindProblem {
  readonly field: keyof KindSettings;
  readonly reason: string;
}

/**
 * What the settings of a kind have wrong together; empty: `kindOf` takes them. The parser of
 * policies has checked that each is possible for the shape.
 */
export function kindProblems(settings: KindSettings): KindProblem[] {
  const { shape, keep, suffix, normalize, country } = settings;
  const { keep_first: first, keep_last: last, begins_with: begin, check_digits: check } = settings;
  const isPhone = normalize.includes('e164');
  const phones = `e164 makes telephone numbers, which shape ${shape} refuses`;
  const isUnknown = country !== null && !isPhoneCountry(country);
  const isYear = shape === 'date' && keep === 'year';
  const isTooLong = Math.max(first, begin.length) + last > MAX_FIXED;
  const problems: readonly (readonly [boolean, keyof KindSettings, reason: string])[] = [
    [isYear && !suffix, 'suffix', 'must be true with keep: year, because a year has only 365 days'],
    [isTooLong, last > 0 ? 'keep_last' : 'begins_with', LEAVES],
    [begin !== '' && first > 0, 'begins_with', 'takes the place of keep_first: use one of them'],
    [check === 'luhn' && /\D/.test(begin), 'begins_with', 'must be digits with check_digits: luhn'],
    [check === 'mod97' && !/^[A-Za-z]{0,2}$/.test(begin), 'begins_with', TWO_LETTERS],
    [isPhone && (shape === 'email' || shape === 'date'), 'normalize', phones],
    [country !== null && !isPhone, 'country', 'is for normalize: e164'],
    [isUnknown, 'country', 'must be a country of ISO 3166-1 in two capitals, like US'],
  ];
  return problems.flatMap(([is, field, reason]) => (is ? [{ field, reason }] : []));
}

const LEAVES = `leaves more than ${MAX_FIXED} digits as they are`;
const TWO_LETTERS = 'must be at most two letters with check_digits: mod97';

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
