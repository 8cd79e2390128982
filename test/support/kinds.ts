import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { Keyring } from '../../src/crypto/keyring.ts';
import { scopeOf } from '../../src/crypto/scope.ts';
import {
  CHECK_DIGITS,
  defaultKind,
  type KindSettings,
  kindProblems,
  SHAPES,
  type Shape,
} from '../../src/shape/kind-settings.ts';
import type { DrawBits } from '../../src/shape/token.ts';
import type { Value } from '../../src/types.ts';
import { testKeys } from './keys.ts';

/** A kind with these settings, and the defaults of its shape. */
export function kindSettings(
  shape: Shape,
  settings: Partial<KindSettings> = {},
  name = 'one',
): KindSettings {
  return { ...defaultKind(name, shape), ...settings };
}

const ends = fc.record({
  show: fc.constant('ends' as const),
  first: fc.nat({ max: 8 }),
  last: fc.nat({ max: 8 }),
});
const keeps = {
  keep_first: fc.constantFrom(0, 0, 2, 6),
  keep_last: fc.constantFrom(0, 0, 1, 4),
};
const digits: fc.Arbitrary<Partial<KindSettings>> = fc.oneof(
  fc.record({ ...keeps, check_digits: fc.constantFrom(...CHECK_DIGITS) }),
  fc.record({
    begins_with: fc.constantFrom('9', '000'),
    check_digits: fc.constantFrom('none', 'luhn'),
  }),
  fc.record({ begins_with: fc.constantFrom('X', 'QQ'), check_digits: fc.constant('mod97') }),
);
const OF_SHAPE: Readonly<Record<Shape, fc.Arbitrary<Partial<KindSettings>>>> = {
  text: fc.constant({}),
  email: fc.record({ keep: fc.constantFrom('nothing', 'domain', 'top_level_domain') }),
  digits,
  date: fc.record({ keep: fc.constantFrom('nothing', 'year') }),
  uuid: fc.constant({}),
  word: fc.record({ length: fc.integer({ min: 5, max: 20 }) }),
};
const spellings: fc.Arbitrary<Partial<KindSettings>> = fc.oneof(
  fc.constant({}),
  fc.record({ normalize: fc.subarray(['trim', 'lower_case'] as const) }),
  fc.record({
    normalize: fc.constant(['trim', 'e164'] as const),
    country: fc.constantFrom(null, 'DE'),
  }),
);

/** Any kind that `check` allows. */
export const kinds: fc.Arbitrary<KindSettings> = fc
  .constantFrom(...SHAPES)
  .chain((shape) =>
    fc
      .tuple(
        OF_SHAPE[shape],
        spellings,
        fc.boolean(),
        fc.option(ends, { nil: defaultKind('one', shape).mask }),
      )
      .map(([own, normalize, suffix, mask]) =>
        kindSettings(shape, { ...own, ...normalize, suffix, mask }),
      ),
  )
  .filter((settings) => kindProblems(settings).length === 0);

const numbers = fc.oneof(
  fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: 1, maxLength: 24 }),
  fc.stringMatching(/^[0-9]{4} [0-9]{4} [0-9]{4} [0-9]{1,7}$/),
  fc.stringMatching(/^[A-Z]{2}[0-9]{2} ?[0-9A-Za-z]{1,20}$/),
  fc.stringMatching(/^\+?[0-9]{1,3}[ -]\(?[0-9]{2,4}\)?[ /-][0-9]{4,8}$/),
);
const dates = fc
  .date({ min: new Date('1000-01-01'), max: new Date('9999-12-31'), noInvalidDate: true })
  .chain((date) => {
    const iso = date.toISOString();
    const [year, month, day] = [iso.slice(0, 4), iso.slice(5, 7), iso.slice(8, 10)];
    return fc.constantFrom(
      iso,
      iso.slice(0, 10),
      iso.slice(0, 19).replace('T', ' '),
      `${year}${month}${day}`,
      `${day}${month}${year}`,
      `${day}.${month}.${year}`,
      `${+month}/${+day}/${year}`,
      `${day}/${month}/${year.slice(2)}`,
      `${year.slice(2)}-${month}-${day}`,
    );
  });
const any = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.string({ unit: fc.constantFrom(...'aZ7 @.-/é😀\0\t\u00a0\u0301\u200b') }),
);
const TEXTS: Readonly<Record<Shape, fc.Arbitrary<string>>> = {
  text: any,
  email: fc.stringMatching(/^[a-zA-Z.+é]{1,12}@[a-z0-9-]{1,10}\.[a-zA-Z.]{1,6}$/),
  digits: numbers,
  date: fc.oneof(
    dates,
    dates,
    fc.stringMatching(/^[12][0-9]{3}[-/.]?[01][0-9][-/.]?[0-3][0-9]$/),
    fc.stringMatching(/^[0-9]{1,2}[-/.][0-9]{1,2}[-/.](19|20)?[0-9]{2}$/),
  ),
  uuid: any,
  word: any,
};

/** Texts of all kinds. */
export const texts = fc.oneof(...Object.values(TEXTS));

/** A kind, and a text that often is of this kind. */
export const kindsAndTexts = kinds.chain((settings) =>
  fc.tuple(fc.constant(settings), fc.oneof(texts, TEXTS[settings.shape], TEXTS[settings.shape])),
);

/** The keys of a vault with this token key. */
export function keyringOf(tokenKey: Buffer): Keyring {
  return new Keyring(
    testKeys().map((key) => (key.purpose === 'token' ? { ...key, bytes: tokenKey } : key)),
  );
}

const VECTORS = new URL('../vectors/vectors.json', import.meta.url);
const { keys } = JSON.parse(readFileSync(VECTORS, 'utf8'));
/** With the token key of the test vectors, which kinds.py has, too. */
export const VECTOR_KEYRING = keyringOf(Buffer.from(keys.token, 'hex'));

/** The deterministic draws of a value. */
export function kindDraws(keyring: Keyring, space: string, name: string, value: Value): DrawBits {
  return keyring.deterministicDraws(value, scopeOf(name, space)).draws;
}
