import { describe, expect, test } from 'vitest';
import { newApiKey } from '../../src/crypto/api-key.ts';
import { Keyring } from '../../src/crypto/keyring.ts';
import { drawToken, kindOf } from '../../src/shape/kind.ts';
import type { KindSettings, Shape } from '../../src/shape/kind-settings.ts';
import type { Value } from '../../src/types.ts';
import { seededDraws, testKeys } from '../support/keys.ts';
import { kindSettings } from '../support/kinds.ts';

/** TEST_TOKENS=1000000 for the whole of it; the keys are fixed, so the same tokens come every time. */
const TOKENS = Number(process.env.TEST_TOKENS ?? 100_000);
const keyring = new Keyring(testKeys());
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz';

type Shares = Readonly<Record<string, number>>;
const equal = (choices: Iterable<string>) =>
  Object.fromEntries([...choices].map((one) => [one, 1] as const));
const [LETTERS, DIGITS] = [equal(ALPHABET), equal('0123456789')];

/** Chi-squared of the counts of texts, against shares that are equal or given. */
function chiSquared(drawn: readonly string[], shares: Shares): number {
  const counts = new Map<string, number>();
  for (const one of drawn) counts.set(one, (counts.get(one) ?? 0) + 1);
  expect([...counts.keys()].filter((one) => !(one in shares))).toEqual([]);
  const whole = Object.values(shares).reduce((a, b) => a + b, 0);
  return Object.entries(shares).reduce((sum, [one, share]) => {
    const expected = (drawn.length * share) / whole;
    return sum + ((counts.get(one) ?? 0) - expected) ** 2 / expected;
  }, 0);
}

/** Standard deviations that a normal number passes with a probability of 0.001, 0.0001, 0.00001, 0.0000001. */
const [SELDOM, VERY_SELDOM, RARELY] = [3.09, 3.719, 4.265];
/** For what is drawn anew each run: a test must not fail by chance. */
const HARDLY_EVER = 5.199;

/** The value that chi-squared of counts of these kinds passes as seldom (Wilson and Hilferty). */
function limit(shares: Shares, deviations: number): number {
  const degrees = Object.keys(shares).length - 1;
  const spread = 2 / (9 * degrees);
  return degrees * (1 - spread + deviations * Math.sqrt(spread)) ** 3;
}

/** What is drawn has these shares, but for chance. */
function expectShares(drawn: readonly string[], shares: Shares, deviations: number, of = ''): void {
  expect(chiSquared(drawn, shares), of).toBeLessThan(limit(shares, deviations));
}

describe.each(['deterministic', 'random'])('C18: %s tokens', (mode) => {
  const values = Array.from({ length: TOKENS }, (_, i) => alike(i));
  const stems = values.map((value) => {
    const source = mode === 'random' ? keyring.randomDraws() : keyring.deterministicDraws(value);
    return drawToken(value, 'tok', source.draws, 0)!.token.slice(0, -'_tok'.length);
  });

  test('no two of them are the same', () => {
    expect(new Set(stems).size).toBe(TOKENS);
  });

  test('their letters and digits are uniform, over all and in each place', () => {
    const ofAll = mode === 'random' ? HARDLY_EVER : SELDOM;
    const ofEach = mode === 'random' ? HARDLY_EVER : RARELY;
    const all = stems.join('').split('');

    for (const shares of [LETTERS, DIGITS]) {
      const some = all.filter((one) => one in shares);
      expectShares(some, shares, ofAll);
    }
    for (let place = 0; place < 8; place++) {
      const here = stems.map((stem) => stem[place]!);
      expectShares(here, LETTERS, ofEach, `place ${place}`);
    }
  });

  test('they have nothing of their values but by chance', () => {
    let shared = 0;
    let places = 0;
    stems.forEach((stem, i) => {
      // The eight letters in front: a run of four the same in the same place.
      for (let place = 0; place + 4 <= 8; place++) {
        places++;
        if (stem.slice(place, place + 4) === values[i]!.slice(place, place + 4)) shared++;
      }
    });
    const expected = places / 26 ** 4;
    // Poisson: five standard deviations, and runs overlap.
    expect(shared).toBeLessThanOrEqual(expected + 5 * Math.sqrt(2 * expected) + 3);
  });
});

/** Values that people have, much alike: eight letters, a blank, a number that counts. */
function alike(i: number): Value {
  const name = [5, 4, 3, 2, 1, 0].map((power) => ALPHABET[Math.floor(i / 26 ** power) % 26]);
  return `an${name.join('')} ${String(i).padStart(16, '4')}` as Value;
}

test('the measure of C18 finds letters that are drawn as the rest of a byte', () => {
  // Of 256 bytes, 22 letters have ten and four have nine.
  const skewed = Array.from({ length: TOKENS }, (_, i) => ALPHABET[((i * 151) % 256) % 26]!);
  expect(chiSquared(skewed, LETTERS)).toBeGreaterThan(limit(LETTERS, HARDLY_EVER));
});

test('C21: API keys have more than 160 random bits, uniform, and none comes twice', () => {
  const keys = Array.from({ length: 20_000 }, newApiKey);
  const random = keys.map((key) => key.slice('stk_'.length, -6));
  expect(random[0]!.length * Math.log2(62)).toBeGreaterThan(160);
  expect(new Set(random).size).toBe(keys.length);
  const base62 = { ...DIGITS, ...LETTERS, ...equal(ALPHABET.toUpperCase()) };
  expectShares(random.join('').split(''), base62, HARDLY_EVER);
});

/** Seeded tokens of a value without the suffix, so the same in every run. */
function tokens(shape: Shape, settings: Partial<KindSettings>, value: string): string[] {
  const kind = kindOf(kindSettings(shape, settings));
  return Array.from({ length: 20_000 }, (_, i) => {
    const { token } = kind.drawToken(value as Value, 'tok', seededDraws(`${shape} ${i}`), 0)!;
    return token.replace(/(_[a-z]+)?_tok$/, '');
  });
}

/** Two digits each: so many numbers from the first on. */
const numbers = (first: number, count: number) =>
  Array.from({ length: count }, (_, i) => String(first + i).padStart(2, '0'));
const HEX = equal('0123456789abcdef');
const MONTHS = equal(numbers(1, 12));
// The Gregorian calendar repeats every 400 years, which have 97 leap years.
const DAYS = [31, 28.2425, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const LONG_MONTHS = Object.fromEntries(numbers(1, 12).map((month, i) => [month, DAYS[i]!]));
const YEAR = Array.from({ length: 366 }, (_, i) =>
  new Date(Date.UTC(2024, 0, 1 + i)).toISOString().slice(0, 10),
);

/** A part of tokens, and its shares. */
type Part = readonly [from: number, to: number, shares: Shares];
const each = (places: readonly number[], shares: Shares): Part[] =>
  places.map((place) => [place, place + 1, shares]);
const digits = (...places: number[]) => each(places, DIGITS);
const luhn = { check_digits: 'luhn' } as const;
const mod97 = { check_digits: 'mod97' } as const;

test.each<[string, Shape, Partial<KindSettings>, string, readonly Part[]]>([
  ['digits', 'digits', { keep_last: 4 }, '4111111111111111', digits(0, 5, 11)],
  ['with luhn', 'digits', luhn, '411111111111', digits(0, 5, 10, 11)],
  ['kept end', 'digits', { ...luhn, keep_last: 4 }, '4111111111111111', digits(0, 10, 11)],
  ['with mod97', 'digits', mod97, 'DE89370400440532013000', digits(4, 12, 21)],
  ['months', 'date', {}, '1985-04-12', [[5, 7, LONG_MONTHS]]],
  ['millennia', 'date', {}, '1985-04-12', [[0, 1, equal('123456789')]]],
  ['first reading', 'date', {}, '04/07/1985', [[0, 2, MONTHS]]],
  ['second reading', 'date', {}, '04/07/1985', [[3, 5, MONTHS]]],
  ['days of a kept year', 'date', { keep: 'year' }, '2024-04-12', [[0, 10, equal(YEAR)]]],
  ['hours', 'date', {}, '1985-04-12T10:20:30Z', [[11, 13, equal(numbers(0, 24))]]],
  ['seconds', 'date', {}, '1985-04-12T10:20:30Z', [[17, 19, equal(numbers(0, 60))]]],
  ['UUIDs', 'uuid', {}, 'any', each([0, 15, 20, 35], HEX)],
  ['their variant', 'uuid', {}, 'any', each([19], equal('89ab'))],
])('%s of %s %j for %s are uniform', (_, shape, settings, value, parts) => {
  const drawn = tokens(shape, settings, value);
  for (const [from, to, shares] of parts) {
    const there = drawn.map((token) => token.slice(from, to));
    expectShares(there, shares, VERY_SELDOM, `${from}`);
  }
});

test('days of a date are uniform, with as many leap days as the calendar has', () => {
  const dates = tokens('date', {}, '1985-04-12');
  const full = equal(numbers(1, 28));
  const days = dates.map((date) => date.slice(8)).filter((one) => one in full);
  expectShares(days, full, VERY_SELDOM);
  // 2,182 leap years of 9,000: 13.3 of 20,000 dates are expected, and 2 to 30 but for p < 0.0001.
  const leapDays = dates.filter((date) => date.endsWith('-02-29')).length;
  expect(leapDays).toBeGreaterThan(1);
  expect(leapDays).toBeLessThan(31);
});
