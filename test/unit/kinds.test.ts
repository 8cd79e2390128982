import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { looksLikeCard } from '../../src/shape/card.ts';
import { kindOf } from '../../src/shape/kind.ts';
import type { KindSettings } from '../../src/shape/kind-settings.ts';
import { drawToken } from '../../src/shape/token.ts';
import type { Value } from '../../src/types.ts';
import { seededDraws } from '../support/keys.ts';
import {
  orders,
  passesLuhn,
  passesMod97,
  possibilities,
  stemPattern,
} from '../support/kind-rules.ts';
import { kindSettings, kinds, texts } from '../support/kinds.ts';
import { Random } from '../support/random.ts';
import { parseCsv, readSample, samplesFolder } from '../support/token-rules.ts';

const { seed } = new Random();
const runs = { seed, numRuns: 3_000 };

/** What a kind makes of a text: the uniform value and its token, or why it refuses the text. */
function made(settings: KindSettings, text: string, drawSeed = 'one') {
  const kind = kindOf(settings);
  const accepted = kind.accept(text);
  if ('reason' in accepted) return accepted;
  const { token, draw } = kind.drawToken(accepted.value, 'tok', seededDraws(drawSeed), 0)!;
  const stem = settings.suffix ? token.slice(0, -'_tok'.length) : token;
  return { value: accepted.value as string, token: token as string, stem, draw };
}

/** All that a kind promises of a text. Returns whether the kind took it. */
function keepsItsPromises(settings: KindSettings, text: string, drawSeed: string): boolean {
  const one = made(settings, text, drawSeed);
  if ('reason' in one) {
    expect(one.reason).toMatch(/^(is|has|begins|does) .{5,}[^.]$/);
    if (text.length > 6) expect(one.reason).not.toContain(text);
    return false;
  }
  const { value, token, stem, draw } = one;
  expect(kindOf(settings).accept(value)).toEqual({ value });
  expect(token).toMatch(/^[!-~]([ -~]*[!-~])?$/);
  expect(token.endsWith('_tok') || !settings.suffix).toBe(true);
  expect([stem, token]).not.toContain(value);
  if (settings.check_digits === 'luhn') expect(passesLuhn(stem)).toBe(true);
  else expect(looksLikeCard(token)).toBe(false);
  if (settings.check_digits === 'mod97') expect(passesMod97(stem)).toBe(true);
  if (draw < 8) {
    expect(stem).toMatch(stemPattern(settings, value));
    expect(possibilities(settings, value, stem)).toBeGreaterThanOrEqual(1_000_000);
  }
  if (settings.shape === 'date')
    expect(orders(stem.split('_')[0]!).length).toBeGreaterThanOrEqual(orders(value).length);
  if (!settings.suffix && !['uuid', 'word'].includes(settings.shape)) {
    expect(token.length).toBe([...value].length);
  }
  return true;
}

describe('every kind keeps its promises, or refuses a text with a reason that does not tell it', () => {
  test('for any text', () => {
    const taken = new Map<string, number>();
    fc.assert(
      fc.property(kinds, texts, fc.string(), (settings, text, drawSeed) => {
        const { shape, suffix } = settings;
        if (keepsItsPromises(settings, text, drawSeed)) {
          const which = `${shape} ${suffix}`;
          taken.set(which, (taken.get(which) ?? 0) + 1);
        }
      }),
      runs,
    );
    // The texts reach all shapes, with and without suffix.
    expect(taken.size).toBe(12);
    for (const [which, count] of taken) expect(count, which).toBeGreaterThan(3);
  });
});
