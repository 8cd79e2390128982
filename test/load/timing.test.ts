import { describe, expect, test } from 'vitest';
import { newApiKey } from '../../src/crypto/api-key.ts';
import type { Token } from '../../src/types.ts';
import { testKeyring } from '../support/keys.ts';

/**
 * Whether the time of a check tells how near a guess is: Welch's t-test over two kinds of guesses, taken in turns
 * drawn by lot. Each attempt has a control, a comparison that ends at the first difference: an attempt on a machine so
 * busy that the control is not seen counts as none, so noise cannot make the test pass. Three attempts that see the
 * control and a difference are a failure. The check digits of an API key are no secret, and are left out: their time
 * depends on the characters of the guess alone.
 *
 * Beside other work the caches of the processor tell the kinds apart that the code does not: alone only.
 */
const SAMPLES = 20_000;
const REPEATS = 8;
const LIMIT = 4.5;
const ATTEMPTS = 8;
const FAILURES = 3;
/** Interruptions are no part of the check. */
const KEPT = 0.9;

const keyring = testKeyring();
const api_key = newApiKey();

/** The same in form, however made: one flat string of one byte a character. */
function flat(text: string): string {
  return Buffer.from(text).toString('latin1');
}

function welch(one: number[], two: number[]): number {
  const [a, b] = [one, two].map((all) => {
    const kept = all.toSorted((x, y) => x - y).slice(0, Math.floor(all.length * KEPT));
    const mean = kept.reduce((sum, x) => sum + x, 0) / kept.length;
    const variance = kept.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (kept.length - 1);
    return { mean, error: variance / kept.length };
  });
  return Math.abs(a!.mean - b!.mean) / Math.sqrt(a!.error + b!.error);
}

/** @returns t of the times that the check takes for guesses of each of two kinds */
function measure(check: (guess: string) => unknown, kinds: readonly [string[], string[]]): number {
  const times: [number[], number[]] = [[], []];
  let sink = 0;
  for (let i = 0; i < SAMPLES; i++) {
    for (const kind of Math.random() < 0.5 ? ([0, 1] as const) : ([1, 0] as const)) {
      const guess = kinds[kind][i % kinds[kind].length]!;
      const started_ns = process.hrtime.bigint();
      for (let again = 0; again < REPEATS; again++) if (check(guess)) sink++;
      times[kind].push(Number(process.hrtime.bigint() - started_ns));
    }
  }
  expect(sink).toBeGreaterThanOrEqual(0);
  return welch(times[0], times[1]);
}

/** Ends at the first character that differs: what a check must not do. */
function leakyCompare(guess: string): boolean {
  for (let i = 0; i < api_key.length; i++)
    if (guess.charCodeAt(i) !== api_key.charCodeAt(i)) return false;
  return true;
}

const random_keys = Array.from({ length: 64 }, () => flat(newApiKey()));
/** All but the last eight characters are right. */
const near_keys = random_keys.map((key) => flat(api_key.slice(0, -8) + key.slice(-8)));
/** Right in the front half. */
const near_bodies = random_keys.map((key) => flat(`${api_key.slice(0, 24)}${key.slice(24)}`));
const token = flat('qwertyuiop asdfghjkl_tok');
const unknown = random_keys.map((_, i) =>
  flat(`qwertyuiop asdfgh${String(i).padStart(2, 'x')}l_tok`),
);
const malformed = random_keys.map((_, i) =>
  flat(`qwertyuiop asdfgh${String(i).padStart(2, 'X')}l-TOK`),
);

describe.runIf(process.env.TEST_TIMING === '1')(
  'L16: the time of a check does not tell how near a guess is',
  () => {
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
    ] as [string, (guess: string) => unknown, [string[], string[]]][])(
      '%s',
      (_name, check, kinds) => {
        expect(token).toHaveLength(unknown[0]!.length);
        let seen = 0;
        const differences: number[] = [];
        for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
          measure(check, kinds);
          const t = measure(check, kinds);
          if (measure(leakyCompare, [near_keys, random_keys]) < LIMIT) continue;
          seen++;
          if (t < LIMIT) return;
          differences.push(t);
          if (differences.length >= FAILURES) break;
        }
        expect(seen, 'attempts in which the control was seen').toBeGreaterThan(0);
        expect(differences).toEqual([]);
      },
    );
  },
);

const live = new Map([[keyring.apiKeyDigest(api_key), 'the client']]);
