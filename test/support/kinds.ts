import fc from 'fast-check';
import { defaultKind, kindProblems } from '../../src/shape/kind.ts';
import {
  CHECK_DIGITS,
  KEPT_PARTS,
  type KindSettings,
  SHAPES,
  type Shape,
  SPELLINGS,
} from '../../src/shape/kind-settings.ts';

/** A kind with these settings, and the defaults of its shape. */
export function kindSettings(
  shape: Shape,
  settings: Partial<KindSettings> = {},
  name = 'one',
): KindSettings {
  return { ...defaultKind(name, shape), ...settings };
}

const masks = fc.oneof(
  fc.constantFrom(
    { show: 'nothing' as const },
    { show: 'domain' as const },
    { show: 'year' as const },
  ),
  fc.record({
    show: fc.constant('ends' as const),
    first: fc.nat({ max: 8 }),
    last: fc.nat({ max: 8 }),
  }),
);

/** Any kind that `check` allows. */
export const kinds: fc.Arbitrary<KindSettings> = fc
  .constantFrom(...SHAPES)
  .chain((shape) =>
    fc
      .record({
        keep: fc.constantFrom(...KEPT_PARTS),
        keep_first: shape === 'digits' ? fc.nat({ max: 6 }) : fc.constant(0),
        keep_last: shape === 'digits' ? fc.nat({ max: 4 }) : fc.constant(0),
        begins_with: shape === 'digits' ? fc.constantFrom('', '9', '000', 'XX') : fc.constant(''),
        check_digits:
          shape === 'digits' ? fc.constantFrom(...CHECK_DIGITS) : fc.constant('none' as const),
        length: fc.integer({ min: 5, max: 20 }),
        suffix: fc.boolean(),
        spelling: fc.subarray([...SPELLINGS]),
        country: fc.constantFrom(null, 'DE', 'US'),
        mask: fc.oneof(fc.constant(defaultKind('one', shape).mask), masks),
      })
      .map((settings) => kindSettings(shape, settings)),
  )
  .filter((settings) => kindProblems(settings).length === 0);

/** Texts that a kind may accept, among texts of all others. */
export const texts: fc.Arbitrary<string> = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.string({ unit: fc.constantFrom(...'aZ7 @.-/é😀\0\t\u00a0\u0301\u200b') }),
  fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: 1, maxLength: 24 }),
  fc.stringMatching(/^[0-9]{4} [0-9]{4} [0-9]{4} [0-9]{1,7}$/),
  fc.stringMatching(/^[A-Z]{2}[0-9]{2} ?[0-9A-Za-z]{1,20}$/),
  fc.stringMatching(/^\+?[0-9]{1,3}[ -]\(?[0-9]{2,4}\)?[ /-][0-9]{4,8}$/),
  fc.stringMatching(/^[a-zA-Z.+é]{1,12}@[a-z0-9-]{1,10}\.[a-zA-Z.]{1,6}$/),
  fc.stringMatching(/^[12][0-9]{3}[-/.]?[01][0-9][-/.]?[0-3][0-9]$/),
  fc.stringMatching(/^[0-9]{1,2}[-/.][0-9]{1,2}[-/.](19|20)?[0-9]{2}$/),
  fc
    .date({ min: new Date('1000-01-01'), max: new Date('9999-12-31'), noInvalidDate: true })
    .chain((date) => {
      const iso = date.toISOString();
      const [year, month, day] = [iso.slice(0, 4), iso.slice(5, 7), iso.slice(8, 10)];
      return fc.constantFrom(
        iso,
        iso.slice(0, 10),
        iso.slice(0, 19).replace('T', ' '),
        `${year}${month}${day}`,
        `${day}.${month}.${year}`,
        `${+month}/${+day}/${year}`,
        `${day}/${month}/${year.slice(2)}`,
      );
    }),
);
