import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { looksLikeCard } from '../../src/shape/card.ts';
import { notationOf } from '../../src/shape/date.ts';
import { kindOf } from '../../src/shape/kind.ts';
import type { KindSettings, Shape } from '../../src/shape/kind-settings.ts';
import type { DrawBits } from '../../src/shape/token.ts';
import { mostValueBytes } from '../../src/tokens/value-bytes.ts';
import type { Value } from '../../src/types.ts';
import { has } from '../support/deploy.ts';
import { bytesThatDraw, seededBytes, seededDraws } from '../support/keys.ts';
import { kindDraws, kindSettings, kinds, kindsAndTexts, VECTOR_KEYRING } from '../support/kinds.ts';
import { Random } from '../support/random.ts';
import { naughtyStrings, SHORT_PHONES, samples } from '../support/samples.ts';

const { seed } = new Random();
const FEW_DIGITS = 'has too few digits for kind one: 6 must be free';

/** The result of a kind for a text: the uniform value and its token, or why it refuses the text. */
function made(settings: KindSettings, text: string) {
  const kind = kindOf(settings);
  const accepted = kind.accept(text);
  if ('reason' in accepted) return accepted;
  const draws = kindDraws(VECTOR_KEYRING, '', settings.name, accepted.value);
  const { token } = kind.drawToken(accepted.value, 'tok', draws, 0)!;
  return { value: accepted.value as string, token: token as string };
}

const some = fc.sample(kinds, { seed, numRuns: 40 });
const cells = samples.flatMap(({ rows }) => rows.flatMap((row) => Object.values(row)));
/** Any texts, all naughty strings and all cells of the sample rows, each with a kind. */
const cases = [
  ...fc.sample(kindsAndTexts, { seed, numRuns: 2_000 }),
  ...some.slice(0, 12).flatMap((one) => naughtyStrings.map((text) => [one, text] as const)),
  ...cells.map((text, i) => [some[i % 40]!, text] as const),
].map(([settings, text]) => ({ settings, text, result: made(settings, text) }));

test('every kind keeps its promises, or refuses a text with a reason that does not tell it', () => {
  const taken = new Set<string>();
  expect([naughtyStrings.length > 400, cells.length > 3_000]).toEqual([true, true]);
  for (const { settings, text, result } of cases) {
    if ('reason' in result) {
      expect(result.reason).toMatch(/^(is|has|begins|does) .{5,}[^.]$/);
      if (text.length > 6) expect(result.reason).not.toContain(text);
      continue;
    }
    const { value, token } = result;
    taken.add(`${settings.shape} ${settings.suffix}`);
    expect(kindOf(settings).accept(value)).toEqual({ value });
    expect(token).toMatch(/^[!-~]([ -~]*[!-~])?$/);
    expect(token.endsWith('_tok') || !settings.suffix).toBe(true);
    expect([token, token.replace(/_tok$/, '')]).not.toContain(value);
    expect(mostValueBytes(token, true, '_tok')).toBeGreaterThanOrEqual(Buffer.byteLength(value));
    if (settings.check_digits !== 'luhn') expect(looksLikeCard(token)).toBe(false);
    if (!settings.suffix && !['uuid', 'word'].includes(settings.shape))
      expect(token.length).toBe([...value].length);
  }
  // The texts reach all shapes, with and without suffix.
  expect(taken.size).toBe(12);
});

test.skipIf(!has('python3', '--version'))(
  'every token is that of the second implementation, kinds.py',
  () => {
    const drawn = cases.flatMap(({ settings, result }) =>
      'token' in result ? [{ settings, ...result }] : [],
    );
    const input = JSON.stringify(drawn.map(({ settings, value }) => [settings, value]));
    const program = join(import.meta.dirname, '../vectors/kinds.py');
    const output = execFileSync('python3', [program, 'draw'], { input, maxBuffer: 2 ** 26 });
    const tokens: string[] = JSON.parse(String(output));
    expect(drawn.filter(({ token }, i) => token !== tokens[i])).toEqual([]);
  },
);

test.each<[string, Shape, Partial<KindSettings>, string?]>([
  ['email', 'email', { keep: 'domain', suffix: false }],
  ['phone', 'digits', { keep_last: 4, suffix: false }, FEW_DIGITS],
  ['phone', 'digits', { normalize: ['e164'] }, 'is not a telephone number with + and country code'],
])(
  'every made %s has a token of kind %s %j of its own, or a reason',
  (column, shape, settings, why) => {
    const { rows } = samples[0]!;
    const all = rows.map((row) => made(kindSettings(shape, settings), row[column]!));
    const reasons = all.flatMap((one) => ('reason' in one ? [one.reason] : []));
    expect(reasons).toEqual(why === undefined ? [] : Array(SHORT_PHONES).fill(why));
    const tokens = new Set(all.flatMap((one) => ('token' in one ? [one.token] : [])));
    expect(tokens.size).toBe(rows.length - reasons.length);
  },
);

/** How a date of these three parts is written; undefined: it is none of the calendar. */
function written(three: readonly string[], separator: string) {
  const orders = ['012', '210', '201'].filter((order) => {
    const [year, month, day] = [...order].map((place) => three[Number(place)]!);
    if (year!.length % 2 || month!.length > 2 || day!.length > 2) return false;
    const y = +year!.padStart(4, '20');
    const date = new Date(Date.UTC(y, +month! - 1, +day!));
    return y >= 1000 && date.getUTCMonth() === +month! - 1 && date.getUTCDate() === +day!;
  });
  const places = orders.map((order) => [...order].map(Number));
  const yearPlace = new Set(places.map(([year]) => year)).size > 1 ? undefined : places[0]?.[0];
  const widths = three.map(({ length }) => length);
  const read = places.map(([year, month, day]) => ({ year, month, day }));
  return orders.length === 0 ? undefined : { separator, widths, orders: read, yearPlace };
}

test('dates are those of the calendar, in all notations and orders, whatever was read before', () => {
  const small = Array.from({ length: 13 }, (_, i) => `${i + 1}`);
  const parts = '00 02 004 28 29 30 31 32 96 0999 1000 1900 2000 2100 9999'
    .split(' ')
    .concat(small);
  const all = parts.flatMap((a) => parts.flatMap((b) => parts.map((c) => [a, b, c])));
  for (const separator of ['', '-', '/', '.'])
    for (const three of all) {
      const text = three.join(separator);
      const cut = (...ends: number[]) => ends.map((end, i) => text.slice(ends[i - 1] ?? 0, end));
      const joined = text.length === 8 && (written(cut(4, 6, 8), '') ?? written(cut(2, 4, 8), ''));
      const layout = notationOf(text)?.layout;
      const expected = separator === '' ? joined || undefined : written(three, separator);
      // A comparison of the library takes ten times as long.
      if (!isDeepStrictEqual(layout, expected)) expect(layout, text).toEqual(expected);
      if (notationOf(text)?.layout !== layout) expect.fail(`${text} has two layouts`);
    }
});

test('dates are drawn from all years, real and read as their value is, from as many blocks as needed', () => {
  const kind = kindOf(kindSettings('date', {}));
  const drawn = (value: string, draws: DrawBits) =>
    kind.drawToken(value as Value, 'tok', draws, 0)!.token;
  const years = new Set<string>();
  for (let i = 0; i < 3_000; i++) {
    const draws = seededDraws(`${seed} ${i}`);
    const joined = notationOf(drawn('31121985', draws).slice(0, 8));
    expect(joined?.layout.yearPlace).toBe(2);
    const short = drawn('31.12.85', draws).slice(0, 8);
    expect(notationOf(short)).toBeDefined();
    years.add(short.slice(6));
  }
  expect(years.size).toBe(100);
  const bytes = seededBytes(`${seed}`, 100);
  const [one, many] = [() => bytes, (_: number, block: number) => bytes.charAt(block)].map(
    (draws) => drawn('1985-04-12T10:20:30.123456789Z', draws),
  );
  expect(one).toBe(many);
});

test('after 64 draws there is no token', () => {
  const kind = kindOf(kindSettings('word'));
  expect(kind.drawToken('any' as Value, 'tok', seededDraws('last'), 64)).toBeUndefined();
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
