import { expect, test } from 'vitest';
import { kindOf } from '../../src/shape/kind.ts';
import type { KindSettings, Shape } from '../../src/shape/kind-settings.ts';
import type { Value } from '../../src/types.ts';
import { seededBytes } from '../support/keys.ts';
import { kindSettings } from '../support/kinds.ts';

const DRAWS = 20_000;

/** Seeded tokens of a value without the suffix, so the same in every run. */
function tokens(shape: Shape, settings: Partial<KindSettings>, value: string): string[] {
  const kind = kindOf(kindSettings(shape, settings));
  return Array.from({ length: DRAWS }, (_, i) => {
    const draws = (draw: number, block: number) =>
      seededBytes(`${shape} ${i} ${draw} ${block}`, 48);
    return kind.drawToken(value as Value, 'tok', draws, 0)!.token.replace(/(_[a-z]+)?_tok$/, '');
  });
}

type Shares = Readonly<Record<string, number>>;

/** Chi-square of the counts of texts, against shares that are equal or given. */
function chiSquare(drawn: readonly string[], shares: Shares): number {
  const counts = new Map<string, number>();
  for (const one of drawn) counts.set(one, (counts.get(one) ?? 0) + 1);
  expect([...counts.keys()].every((one) => one in shares)).toBe(true);
  const whole = Object.values(shares).reduce((a, b) => a + b, 0);
  return Object.entries(shares).reduce((sum, [one, share]) => {
    const expected = (drawn.length * share) / whole;
    return sum + ((counts.get(one) ?? 0) - expected) ** 2 / expected;
  }, 0);
}

const equal = (choices: readonly string[]) => Object.fromEntries(choices.map((one) => [one, 1]));
/** Two digits each: so many numbers from the first on. */
const numbers = (first: number, count: number) =>
  Array.from({ length: count }, (_, i) => String(first + i).padStart(2, '0'));
const DIGITS = equal([...'0123456789']);
const HEX = equal([...'0123456789abcdef']);
const MONTHS = equal(numbers(1, 12));
// The Gregorian calendar repeats every 400 years, which have 97 leap years.
const DAYS = [31, 28.2425, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const LONG_MONTHS = Object.fromEntries(numbers(1, 12).map((month, i) => [month, DAYS[i]!]));
const YEAR = Array.from({ length: 366 }, (_, i) =>
  new Date(Date.UTC(2024, 0, 1 + i)).toISOString().slice(0, 10),
);

/** A part of tokens, its shares, and the quantile of chi-square at p = 0.0001. */
type Part = readonly [from: number, to: number, shares: Shares, bound: number];
const each = (places: readonly number[], shares: Shares, bound: number): Part[] =>
  places.map((place) => [place, place + 1, shares, bound]);
const digits = (...places: number[]) => each(places, DIGITS, 33.7);
const luhn = { check_digits: 'luhn' } as const;
const mod97 = { check_digits: 'mod97' } as const;

test.each<[string, Shape, Partial<KindSettings>, string, readonly Part[]]>([
  ['digits', 'digits', { keep_last: 4 }, '4111111111111111', digits(0, 5, 11)],
  ['with luhn', 'digits', luhn, '411111111111', digits(0, 5, 10, 11)],
  ['kept end', 'digits', { ...luhn, keep_last: 4 }, '4111111111111111', digits(0, 10, 11)],
  ['with mod97', 'digits', mod97, 'DE89370400440532013000', digits(4, 12, 21)],
  ['months', 'date', {}, '1985-04-12', [[5, 7, LONG_MONTHS, 37.4]]],
  ['millennia', 'date', {}, '1985-04-12', [[0, 1, equal([...'123456789']), 31.9]]],
  ['first reading', 'date', {}, '04/07/1985', [[0, 2, MONTHS, 37.4]]],
  ['second reading', 'date', {}, '04/07/1985', [[3, 5, MONTHS, 37.4]]],
  ['days of a kept year', 'date', { keep: 'year' }, '2024-04-12', [[0, 10, equal(YEAR), 474]]],
  ['hours', 'date', {}, '1985-04-12T10:20:30Z', [[11, 13, equal(numbers(0, 24)), 56]]],
  ['seconds', 'date', {}, '1985-04-12T10:20:30Z', [[17, 19, equal(numbers(0, 60)), 108]]],
  ['UUIDs', 'uuid', {}, 'any', each([0, 15, 20, 35], HEX, 44.3)],
  ['their variant', 'uuid', {}, 'any', each([19], equal([...'89ab']), 21.1)],
])('%s of %s %j for %s are uniform', (_, shape, settings, value, parts) => {
  const drawn = tokens(shape, settings, value);
  for (const [from, to, shares, bound] of parts) {
    const there = drawn.map((token) => token.slice(from, to));
    expect(chiSquare(there, shares), `${from}`).toBeLessThan(bound);
  }
});

test('days of a date are uniform, with as many leap days as the calendar has', () => {
  const dates = tokens('date', {}, '1985-04-12');
  const full = equal(numbers(1, 28));
  const days = dates.map((date) => date.slice(8)).filter((one) => one in full);
  expect(chiSquare(days, full)).toBeLessThan(61.7);
  // 2,182 leap years of 9,000: 13.3 of 20,000 dates are expected, and 2 to 30 but for p < 0.0001.
  const leapDays = dates.filter((date) => date.endsWith('-02-29')).length;
  expect(leapDays).toBeGreaterThan(1);
  expect(leapDays).toBeLessThan(31);
});
