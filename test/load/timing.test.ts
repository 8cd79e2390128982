import { describe, expect, test } from 'vitest';
import { newApiKey } from '../../src/crypto/api-key.ts';
import type { Token } from '../../src/types.ts';
import { testKeyring } from '../support/keys.ts';
import { Random } from '../support/random.ts';

/**
 * Whether the time of a check tells how near a guess is. Guesses of two kinds are checked in turns that are drawn by
 * lot, in short blocks. The difference of a block is the difference of the medians of its two kinds: an interruption
 * hardly moves it, and a machine that is slow for longer is slow for both kinds.
 *
 * Where strings lie in memory makes a difference too: caches showed up to 0.51 % of the check, certain by t over the
 * blocks. So the whole is done with new strings five times. A leak is in all of them, on one side; the places of
 * strings are drawn by lot, and so are their differences. The control, a check that goes on to compare up to the first
 * difference, shows 5 %, and must be found.
 */
const PLACEMENTS = 5;
const BLOCKS = 100;
/** The compiler is at it in the first blocks, and new strings are moved by the garbage collector. */
const WARM_UP_BLOCKS = 40;
const PAIRS = 51;
const REPEATS = 8;
/** Medians over the placements. */
const T_LIMIT = 4.5;
/** Of the time of the check. */
const EFFECT_LIMIT = 0.005;
/** Blocks without the most extreme ones: between them the machine did something else. */
const KEPT = 0.8;
const GUESSES = 64;

const keyring = testKeyring();
const apiKey = newApiKey();

/** Both have the sign of the difference. */
interface Difference {
  readonly t: number;
  /** Share of the time of the check. */
  readonly effect: number;
}

/** The same in form, however made: one flat string of one byte a character. */
function flat(text: string): string {
  return Buffer.from(text).toString('latin1');
}

function median(numbers: number[]): number {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1]!;
}

const order = new Random();
const ORDERS = [
  [0, 1],
  [1, 0],
] as const;

type Kinds = readonly [string[], string[]];
/** Makes the guess of a number, of one kind. */
type Maker = (i: number) => string;

/** New strings; which kind of a pair comes first in memory is drawn by lot. */
function place(makers: readonly [Maker, Maker]): Kinds {
  const kinds: Kinds = [[], []];
  for (let i = 0; i < GUESSES; i++) {
    for (const kind of order.pick(ORDERS)) kinds[kind].push(flat(makers[kind](i)));
  }
  return kinds;
}

/** Median times of a block, for guesses of each of two kinds. */
function block(check: (guess: string) => unknown, kinds: Kinds, from: number): [number, number] {
  const times: [number[], number[]] = [[], []];
  let right = 0;
  for (let i = from; i < from + PAIRS; i++) {
    for (const kind of order.pick(ORDERS)) {
      const guess = kinds[kind][i % kinds[kind].length]!;
      const startedNs = process.hrtime.bigint();
      for (let again = 0; again < REPEATS; again++) if (check(guess)) right++;
      times[kind].push(Number(process.hrtime.bigint() - startedNs));
    }
  }
  // All or none: a check does not take some of the guesses.
  expect([0, 2 * PAIRS * REPEATS]).toContain(right);
  return [median(times[0]), median(times[1])];
}

/** One-sample t-test over the differences of the blocks in the middle. */
function measure(check: (guess: string) => unknown, kinds: Kinds): Difference {
  const blocks = Array.from({ length: WARM_UP_BLOCKS + BLOCKS }, (_, i) =>
    block(check, kinds, i * PAIRS),
  );
  const measured = blocks.slice(WARM_UP_BLOCKS);
  const sorted = measured.map(([one, two]) => one - two).toSorted((a, b) => a - b);
  const cut = Math.floor((sorted.length * (1 - KEPT)) / 2);
  const kept = sorted.slice(cut, sorted.length - cut);
  const mean = kept.reduce((sum, x) => sum + x, 0) / kept.length;
  const variance = kept.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (kept.length - 1);
  return {
    t: mean / Math.sqrt(variance / kept.length),
    effect: mean / median(measured.map(([one]) => one)),
  };
}

function measureAll(
  check: (guess: string) => unknown,
  makers: readonly [Maker, Maker],
): Difference[] {
  return Array.from({ length: PLACEMENTS }, () => measure(check, place(makers)));
}

function isTold(differences: readonly Difference[]): boolean {
  const signs = new Set(differences.map(({ effect }) => Math.sign(effect)));
  const t = Math.abs(median(differences.map((one) => one.t)));
  const effect = Math.abs(median(differences.map((one) => one.effect)));
  return signs.size === 1 && t > T_LIMIT && effect > EFFECT_LIMIT;
}

/** Ends at the first character that differs: what a check must not do. */
function leakyCheck(guess: string): boolean {
  keyring.apiKeyDigest(guess);
  for (let i = 0; i < apiKey.length; i++)
    if (guess.charCodeAt(i) !== apiKey.charCodeAt(i)) return false;
  return true;
}

const random: Maker = () => newApiKey();
/** All but the last eight characters are right. */
const near: Maker = () => apiKey.slice(0, -8) + newApiKey().slice(-8);
/** Right in the front half. */
const nearBody: Maker = () => apiKey.slice(0, 24) + newApiKey().slice(24);
const unknown: Maker = (i) => `qwertyuiop asdfgh${String(i).padStart(2, 'x')}l_tok`;
const malformed: Maker = (i) => `qwertyuiop asdfgh${String(i).padStart(2, 'X')}l-TOK`;

const live = new Map([[keyring.apiKeyDigest(apiKey), 'the client']]);

describe('L16: the time of a check does not tell how near a guess is', () => {
  test('the control is found: a check that ends at the first difference', () => {
    const differences = measureAll(leakyCheck, [near, random]);
    expect(isTold(differences), JSON.stringify(differences)).toBe(true);
  });

  test.each([
    [
      'the digest of an API key, right but for its end',
      (guess: string) => keyring.apiKeyDigest(guess),
      [near, random],
    ],
    [
      'the look-up of an API key, right in front',
      (guess: string) => live.get(keyring.apiKeyDigest(guess)),
      [nearBody, random],
    ],
    [
      'the fingerprint of a token that is unknown, or malformed',
      (guess: string) => keyring.tokenFingerprint(guess as Token),
      [unknown, malformed],
    ],
  ] as [string, (guess: string) => unknown, [Maker, Maker]][])('%s', (_name, check, makers) => {
    const differences = measureAll(check, makers);
    expect(isTold(differences), JSON.stringify(differences)).toBe(false);
  });
});
