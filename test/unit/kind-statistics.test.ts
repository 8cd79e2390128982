import { describe, expect, test } from 'vitest';
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

/**
 * Chi-square of the counts of texts, against shares that are equal or given. The bounds of the
 * tests are its quantiles at p = 0.0001.
 */
function chiSquare(drawn: readonly string[], shares: Readonly<Record<string, number>>): number {
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
const two = (n: number) => String(n).padStart(2, '0');
const DIGITS = equal([...'0123456789']);

describe('digits are uniform at every place', () => {
  test.each<[string, Partial<KindSettings>, string, readonly number[]]>([
    ['drawn', { keep_last: 4 }, '4111111111111111', [0, 5, 11]],
    ['with luhn', { check_digits: 'luhn' }, '411111111111', [0, 5, 10, 11]],
    [
      'with luhn before the kept end',
      { check_digits: 'luhn', keep_last: 4 },
      '4111111111111111',
      [0, 10, 11],
    ],
    ['with mod97', { check_digits: 'mod97' }, 'DE89370400440532013000', [4, 12, 21]],
  ])('%s', (_, settings, value, places) => {
    const drawn = tokens('digits', settings, value);
    for (const place of places) {
      expect(
        chiSquare(
          drawn.map((token) => token[place]!),
          DIGITS,
        ),
        `${place}`,
      ).toBeLessThan(33.7);
    }
  });
});

describe('dates are uniform', () => {
  test('over the months and days of 9,000 years', () => {
    const dates = tokens('date', {}, '1985-04-12');
    // The Gregorian calendar repeats every 400 years, which have 97 leap years.
    const days = [31, 28.2425, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    const months = Object.fromEntries(days.map((share, i) => [two(i + 1), share]));
    expect(
      chiSquare(
        dates.map((date) => date.slice(5, 7)),
        months,
      ),
    ).toBeLessThan(37.4);
    const full = equal(Array.from({ length: 28 }, (_, i) => two(i + 1)));
    const day = dates.map((date) => date.slice(8)).filter((one) => one in full);
    expect(chiSquare(day, full)).toBeLessThan(61.7);
    const years = equal([...'123456789']);
    expect(
      chiSquare(
        dates.map((date) => date[0]!),
        years,
      ),
    ).toBeLessThan(31.9);
    // 2,182 leap years of 9,000: 13.3 of 20,000 dates are expected, and 2 to 30 but for p < 0.0001.
    const leapDays = dates.filter((date) => date.endsWith('-02-29')).length;
    expect(leapDays).toBeGreaterThan(1);
    expect(leapDays).toBeLessThan(31);
  });

  test('over both readings of an ambiguous one', () => {
    const dates = tokens('date', {}, '04/07/1985');
    const months = equal(Array.from({ length: 12 }, (_, i) => two(i + 1)));
    expect(
      chiSquare(
        dates.map((date) => date.slice(0, 2)),
        months,
      ),
    ).toBeLessThan(37.4);
    expect(
      chiSquare(
        dates.map((date) => date.slice(3, 5)),
        months,
      ),
    ).toBeLessThan(37.4);
  });

  test('over the days of a kept year', () => {
    const dates = tokens('date', { keep: 'year' }, '2024-04-12');
    const all = Array.from({ length: 366 }, (_, i) =>
      new Date(Date.UTC(2024, 0, 1 + i)).toISOString().slice(0, 10),
    );
    expect(chiSquare(dates, equal(all))).toBeLessThan(474);
  });

  test('over hours and seconds', () => {
    const times = tokens('date', {}, '1985-04-12T10:20:30Z');
    const hours = equal(Array.from({ length: 24 }, (_, i) => two(i)));
    expect(
      chiSquare(
        times.map((time) => time.slice(11, 13)),
        hours,
      ),
    ).toBeLessThan(56);
    const sixty = equal(Array.from({ length: 60 }, (_, i) => two(i)));
    expect(
      chiSquare(
        times.map((time) => time.slice(17, 19)),
        sixty,
      ),
    ).toBeLessThan(108);
  });
});

test('UUIDs are random in all places but version and variant', () => {
  const uuids = tokens('uuid', {}, 'any');
  const hex = equal([...'0123456789abcdef']);
  for (const place of [0, 15, 20, 35]) {
    expect(
      chiSquare(
        uuids.map((uuid) => uuid[place]!),
        hex,
      ),
      `${place}`,
    ).toBeLessThan(44.3);
  }
  expect(
    chiSquare(
      uuids.map((uuid) => uuid[19]!),
      equal([...'89ab']),
    ),
  ).toBeLessThan(21.1);
});
