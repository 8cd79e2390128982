import { describe, expect, test } from 'vitest';
import { newApiKey } from '../../src/crypto/api-key.ts';
import { Keyring } from '../../src/crypto/keyring.ts';
import { drawToken } from '../../src/shape/kind.ts';
import type { Value } from '../../src/types.ts';
import { testKeys } from '../support/keys.ts';

/** TEST_TOKENS=1000000 for the whole of it; the keys are fixed, so the same tokens come every time. */
const TOKENS = Number(process.env.TEST_TOKENS ?? 100_000);
const keyring = new Keyring(testKeys());
const LETTERS = 'abcdefghijklmnopqrstuvwxyz';
const DIGITS = '0123456789';

/** chi-squared of counts against equal ones. */
function chiSquared(counts: readonly number[]): number {
  const expected = counts.reduce((sum, count) => sum + count, 0) / counts.length;
  return counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
}

/** Standard deviations that a normal number passes with a probability of 0.001, 0.00001, 0.0000001. */
const SELDOM = 3.09;
const RARELY = 4.265;
/** For what is drawn anew each run: a test must not fail by chance. */
const HARDLY_EVER = 5.199;

/** The value that chi-squared of counts of so many kinds passes as seldom (Wilson and Hilferty). */
function limit(kinds: number, deviations: number): number {
  const degrees = kinds - 1;
  const spread = 2 / (9 * degrees);
  return degrees * (1 - spread + deviations * Math.sqrt(spread)) ** 3;
}

function count(alphabet: string, texts: Iterable<string>): number[] {
  const counts = new Map([...alphabet].map((character) => [character, 0]));
  for (const text of texts)
    for (const character of text) {
      const before = counts.get(character);
      if (before !== undefined) counts.set(character, before + 1);
    }
  return [...counts.values()];
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
    expect(chiSquared(count(LETTERS, stems))).toBeLessThan(limit(26, ofAll));
    expect(chiSquared(count(DIGITS, stems))).toBeLessThan(limit(10, ofAll));
    for (let place = 0; place < 8; place++) {
      const here = stems.map((stem) => stem[place]!);
      expect(chiSquared(count(LETTERS, here)), `place ${place}`).toBeLessThan(limit(26, ofEach));
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
  const name = [5, 4, 3, 2, 1, 0].map((power) => LETTERS[Math.floor(i / 26 ** power) % 26]);
  return `an${name.join('')} ${String(i).padStart(16, '4')}` as Value;
}

test('the measure of C18 finds letters that are drawn as the rest of a byte', () => {
  // Of 256 bytes, 22 letters have ten and four have nine.
  const skewed = Array.from({ length: TOKENS }, (_, i) => LETTERS[((i * 151) % 256) % 26]!);
  expect(chiSquared(count(LETTERS, skewed))).toBeGreaterThan(limit(26, HARDLY_EVER));
});

test('C21: API keys have more than 160 random bits, uniform, and none comes twice', () => {
  const keys = Array.from({ length: 20_000 }, newApiKey);
  const random = keys.map((key) => key.slice('stk_'.length, -6));
  expect(random[0]!.length * Math.log2(62)).toBeGreaterThan(160);
  expect(new Set(random).size).toBe(keys.length);
  expect(chiSquared(count(DIGITS + LETTERS + LETTERS.toUpperCase(), random))).toBeLessThan(
    limit(62, HARDLY_EVER),
  );
});
