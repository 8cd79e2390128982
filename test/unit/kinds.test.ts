import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { looksLikeCard } from '../../src/shape/card.ts';
import { kindOf } from '../../src/shape/kind.ts';
import type { KindSettings, Shape } from '../../src/shape/kind-settings.ts';
import { mostValueBytes } from '../../src/tokens/value-bytes.ts';
import type { Value } from '../../src/types.ts';
import { bytesThatDraw, seededDraws } from '../support/keys.ts';
import {
  orders,
  passesLuhn,
  passesMod97,
  possibilities,
  stemPattern,
} from '../support/kind-rules.ts';
import { kindSettings, kinds, kindsAndTexts } from '../support/kinds.ts';
import { Random } from '../support/random.ts';
import { naughtyStrings, SHORT_PHONES, samples } from '../support/samples.ts';

const { seed } = new Random();
const runs = { seed, numRuns: 2_000 };
const FEW_DIGITS = 'has too few digits for kind one: 6 must be free';

/** The result of a kind for a text: the uniform value and its token, or why it refuses the text. */
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
  expect(mostValueBytes(token, true, '_tok')).toBeGreaterThanOrEqual(Buffer.byteLength(value));
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
    const taken = new Set<string>();
    fc.assert(
      fc.property(kindsAndTexts, fc.string(), ([settings, text], drawSeed) => {
        const isTaken = keepsItsPromises(settings, text, drawSeed);
        if (isTaken) taken.add(`${settings.shape} ${settings.suffix}`);
      }),
      runs,
    );
    // The texts reach all shapes, with and without suffix.
    expect(taken.size).toBe(12);
  });

  test('for all naughty strings', () => {
    expect(naughtyStrings.length).toBeGreaterThan(400);
    for (const settings of fc.sample(kinds, { seed, numRuns: 12 })) {
      for (const text of naughtyStrings) keepsItsPromises(settings, text, text);
    }
  });

  test('for all cells of the sample rows', () => {
    const cells = samples.flatMap(({ rows }) => rows.flatMap((row) => Object.values(row)));
    expect(cells.length).toBeGreaterThan(3_000);
    const some = fc.sample(kinds, { seed, numRuns: 40 });
    for (const [i, text] of cells.entries()) keepsItsPromises(some[i % 40]!, text, text);
  });
});

test.each<[string, Shape, Partial<KindSettings>, string?]>([
  ['email', 'email', { keep: 'domain', suffix: false }],
  ['phone', 'digits', { keep_last: 4, suffix: false }, FEW_DIGITS],
  ['phone', 'digits', { normalize: ['e164'] }, 'is not a telephone number with + and country code'],
])(
  'every made %s has a token of kind %s %j of its own, or a reason',
  (column, shape, settings, why) => {
    const { rows } = samples[0]!;
    const all = rows.map((row) => made(kindSettings(shape, settings), row[column]!, row[column]!));
    const reasons = all.flatMap((one) => ('reason' in one ? [one.reason] : []));
    expect(reasons).toEqual(why === undefined ? [] : Array(SHORT_PHONES).fill(why));
    const tokens = new Set(all.flatMap((one) => ('token' in one ? [one.token] : [])));
    expect(tokens.size).toBe(rows.length - reasons.length);
  },
);

describe('later draws', () => {
  const lengths = (settings: KindSettings, text: string) => {
    const kind = kindOf(settings);
    const draws = seededDraws('later');
    return [0, 8, 63].map((from) => kind.drawToken(text as Value, 't', draws, from)!.token.length);
  };

  test.each([
    ['text', 'Ann Lee', {}, [9, 10, 16]],
    ['email', 'ann@example.com', { keep: 'domain' }, [19, 20, 26]],
    ['digits', '1234567890', { keep_last: 4 }, [12, 13, 19]],
    ['digits', '4111111111111111', { check_digits: 'luhn' }, [18, 19, 25]],
    ['date', '1985-04-12', {}, [12, 14, 20]],
    ['date', '1985-04-12', { keep: 'year' }, [16, 17, 23]],
    ['uuid', 'any', {}, [38, 38, 38]],
    ['word', 'any', {}, [12, 12, 12]],
    ['text', 'Ann Lee', { suffix: false }, [7, 7, 7]],
    ['email', 'ann@example.com', { suffix: false }, [15, 15, 15]],
    ['digits', '1234567890', { suffix: false }, [10, 10, 10]],
    ['date', '1985-04-12', { suffix: false }, [10, 10, 10]],
  ] as const)('of %s %s %j grow as they may', (shape, text, settings, expected) => {
    expect(lengths(kindSettings(shape, settings), text)).toEqual(expected);
  });

  test('after 64 there is no token', () => {
    const kind = kindOf(kindSettings('word'));
    expect(kind.drawToken('any' as Value, 'tok', seededDraws('last'), 64)).toBeUndefined();
  });
});

test('a value that the kind refuses is never drawn for', () => {
  const kind = kindOf(kindSettings('email'));
  const draw = () => kind.drawToken('no address' as Value, 'tok', seededDraws('no'), 0);
  expect(draw).toThrow(RangeError);
  expect(draw).not.toThrow('no address');
});

const luhn = { keep_first: 4, check_digits: 'luhn' } as const;
const mod97 = { keep_first: 9, check_digits: 'mod97' } as const;
/** Kinds at their least number of possibilities. */
test.each<[string, string, Shape, Partial<KindSettings>]>([
  ['six free digits', '123456-7890', 'digits', { keep_last: 4, suffix: false }],
  ['six free digits beside the check digit', '41111111111', 'digits', luhn],
  ['six free digits of an IBAN', 'NO9386011117947', 'digits', mod97],
  ['a date of two readings', '04/07/1985', 'date', { suffix: false }],
  ['days of a year', '04.07.1985', 'date', { keep: 'year' }],
  ['a short date of three readings', '04-07-05', 'date', {}],
])('%s have 10^6 possibilities: few tokens meet', (_, text, shape, settings) => {
  const kind = kindOf(kindSettings(shape, settings));
  const draws = 3_000;
  const token = (_: unknown, i: number) =>
    kind.drawToken(text as Value, 'tok', seededDraws(`${seed} ${i}`), 0)!.token;
  const tokens = new Set(Array.from({ length: draws }, token));
  // Of 10^6, 4.5 pairs are expected to meet; of 10^5, 45. Poisson: 20 or more at p < 10^-7.
  expect(draws - tokens.size).toBeLessThan(20);
});

test('a date of eight digits with the year last never reads as year, month, day', () => {
  const kind = kindOf(kindSettings('date', { suffix: false }));
  for (let i = 0; i < 1_000; i++) {
    const { token } = kind.drawToken('04071985' as Value, 'tok', seededDraws(`joined ${i}`), 0)!;
    // One in forty dates would.
    expect(orders(token).every(([year]) => year === token.slice(4))).toBe(true);
  }
});

test('values that are accepted in turn are drawn for each on its own', () => {
  const kind = kindOf(kindSettings('email', { keep: 'domain' }));
  const values = ['ann.lee@example.com', 'bob.ray@example.org'];
  for (const value of values) expect(kind.accept(value)).toEqual({ value });
  const domains = values.toReversed().map((value) => {
    const { token } = kind.drawToken(value as Value, 'tok', seededDraws(value), 0)!;
    return token.slice(token.indexOf('@'), -'_tok'.length);
  });
  expect(domains).toEqual(['@example.org', '@example.com']);
});

test.each<[Shape, Partial<KindSettings>, string]>([
  ['text', {}, 'abcdefghij'],
  // Only a value that is longer than its stem can be the whole token.
  ['text', {}, `${'abcdefghij'.padEnd(256, 'b')}_tok`],
  ['word', {}, 'abcdefghij'],
  ['word', { suffix: false }, 'abcdefghij'],
  ['email', { keep: 'domain', suffix: false }, 'abcdef@example.com'],
  ['digits', { keep_last: 4, suffix: false }, '012345 6789'],
])('a token of %s %j is never the value', (shape, settings, value) => {
  const drawn = /^[a-z]+|^\d{6}/.exec(value)![0];
  const draws = (draw: number) => bytesThatDraw(draw < 2 ? drawn : 'bcdefghijk123456');
  const token = kindOf(kindSettings(shape, settings)).drawToken(value as Value, 'tok', draws, 0);
  expect(token).toMatchObject({ draw: 2 });
});
