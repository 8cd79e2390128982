import { describe, expect, test } from 'vitest';
import { newApiKey } from '../../src/crypto/api-key.ts';
import type { Token } from '../../src/types.ts';
import { testKeyring } from '../support/keys.ts';

/**
 * Whether the time of a check tells how near a guess is. Guesses of two kinds are checked in turns that are drawn by
 * lot, in short blocks. The difference of a block is the difference of the medians of its two kinds: an interruption
 * hardly moves it, and a machine that is slow for longer is slow for both kinds.
 *
 * A difference counts when it is certain (t over the blocks) and larger than what caches do: two kinds are strings in
 * different places of the memory, and beside seventeen other processes they differed by up to 0.09 % of the check. The
 * control, a check that goes on to compare up to the first difference, shows 5 %, and must be found.
 */
const BLOCKS = 200;
const PAIRS = 51;
const REPEATS = 8;
const T_LIMIT = 4.5;
/** Of the time of the check. */
const EFFECT_LIMIT = 0.005;
/** Blocks without the most extreme ones: between them the machine did something else. */
const KEPT = 0.8;

const keyring = testKeyring();
const api_key = newApiKey();

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

type Kinds = readonly [string[], string[]];

/** Median times of a block, for guesses of each of two kinds. */
function block(check: (guess: string) => unknown, kinds: Kinds, from: number): [number, number] {
  const times: [number[], number[]] = [[], []];
  let sink = 0;
  for (let i = from; i < from + PAIRS; i++) {
    for (const kind of Math.random() < 0.5 ? ([0, 1] as const) : ([1, 0] as const)) {
      const guess = kinds[kind][i % kinds[kind].length]!;
      const started_ns = process.hrtime.bigint();
      for (let again = 0; again < REPEATS; again++) if (check(guess)) sink++;
      times[kind].push(Number(process.hrtime.bigint() - started_ns));
    }
  }
  expect(sink).toBeGreaterThanOrEqual(0);
  return [median(times[0]), median(times[1])];
}

/** One-sample t-test over the differences of the blocks in the middle. */
function measure(check: (guess: string) => unknown, kinds: Kinds): Difference {
  const blocks = Array.from({ length: 2 * BLOCKS }, (_, i) => block(check, kinds, i * PAIRS));
  // The compiler was at it in the first half.
  const measured = blocks.slice(BLOCKS);
  const sorted = measured.map(([one, two]) => one - two).toSorted((a, b) => a - b);
  const cut = Math.floor((sorted.length * (1 - KEPT)) / 2);
  const kept = sorted.slice(cut, sorted.length - cut);
  const mean = kept.reduce((sum, x) => sum + x, 0) / kept.length;
  const variance = kept.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (kept.length - 1);
  return {
    t: Math.abs(mean) / Math.sqrt(variance / kept.length),
    effect: Math.abs(mean) / median(measured.map(([one]) => one)),
  };
}

function isTold({ t, effect }: Difference): boolean {
  return t > T_LIMIT && effect > EFFECT_LIMIT;
}

/** Ends at the first character that differs: what a check must not do. */
function leakyCheck(guess: string): boolean {
  keyring.apiKeyDigest(guess);
  for (let i = 0; i < api_key.length; i++)
    if (guess.charCodeAt(i) !== api_key.charCodeAt(i)) return false;
  return true;
}

const random_keys = Array.from({ length: 64 }, () => flat(newApiKey()));
/** All but the last eight characters are right. */
const near_keys = random_keys.map((key) => flat(api_key.slice(0, -8) + key.slice(-8)));
/** Right in the front half. */
const near_bodies = random_keys.map((key) => flat(`${api_key.slice(0, 24)}${key.slice(24)}`));
const unknown = random_keys.map((_, i) =>
  flat(`qwertyuiop asdfgh${String(i).padStart(2, 'x')}l_tok`),
);
const malformed = random_keys.map((_, i) =>
  flat(`qwertyuiop asdfgh${String(i).padStart(2, 'X')}l-TOK`),
);

const live = new Map([[keyring.apiKeyDigest(api_key), 'the client']]);

describe('L16: the time of a check does not tell how near a guess is', () => {
  test('the control is found: a check that ends at the first difference', () => {
    const difference = measure(leakyCheck, [near_keys, random_keys]);
    expect(isTold(difference), JSON.stringify(difference)).toBe(true);
  });

  test.each([
    [
      'the digest of an API key, right but for its end',
      (guess: string) => keyring.apiKeyDigest(guess),
      [near_keys, random_keys],
    ],
    [
      'the look-up of an API key, right in front',
      (guess: string) => live.get(keyring.apiKeyDigest(guess)),
      [near_bodies, random_keys],
    ],
    [
      'the fingerprint of a token that is unknown, or malformed',
      (guess: string) => keyring.tokenFingerprint(guess as Token),
      [unknown, malformed],
    ],
  ] as [string, (guess: string) => unknown, Kinds][])('%s', (_name, check, kinds) => {
    const difference = measure(check, kinds);
    expect(isTold(difference), JSON.stringify(difference)).toBe(false);
  });
});
