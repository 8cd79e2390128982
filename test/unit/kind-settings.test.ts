import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { kindOf } from '../../src/shape/kind.ts';
import {
  defaultKind,
  type KindSettings,
  kindProblems,
  kindWarnings,
  SHAPES,
  type Shape,
} from '../../src/shape/kind-settings.ts';
import type { Value } from '../../src/types.ts';
import { seededDraws } from '../support/keys.ts';
import { kindSettings } from '../support/kinds.ts';

test.each(SHAPES)('the defaults of %s have no problem and no warning', (shape) => {
  const settings = defaultKind('one', shape);
  expect(kindProblems(settings)).toEqual([]);
  expect(kindWarnings(settings)).toEqual([]);
  expect(settings).toMatchObject({ name: 'one', shape, suffix: true, length: 10, normalize: [] });
});

test.each<[Shape, Partial<KindSettings>, (keyof KindSettings)?]>([
  ['date', { keep: 'year', suffix: false }, 'suffix'],
  ['digits', { keep_first: 8, keep_last: 4 }, 'keep_last'],
  ['digits', { begins_with: '123456789012' }, 'begins_with'],
  ['digits', { begins_with: '9', keep_first: 1 }, 'begins_with'],
  ['digits', { begins_with: 'X', check_digits: 'luhn' }, 'begins_with'],
  ['digits', { begins_with: 'X1', check_digits: 'mod97' }, 'begins_with'],
  ['digits', { begins_with: 'XYZ', check_digits: 'mod97' }, 'begins_with'],
  ['email', { normalize: ['e164'] }, 'normalize'],
  ['date', { normalize: ['e164'] }, 'normalize'],
  ['digits', { country: 'US' }, 'country'],
  ['digits', { country: 'us', normalize: ['e164'] }, 'country'],
  ['digits', { country: 'ZZ', normalize: ['e164'] }, 'country'],
  ['digits', { keep_first: 7, keep_last: 4, check_digits: 'luhn' }],
  ['digits', { begins_with: '12345678901' }],
  ['digits', { begins_with: 'XX', check_digits: 'mod97' }],
  ['digits', { normalize: ['e164'], country: 'US' }],
  ['text', { normalize: ['trim', 'lower_case', 'e164'] }],
])('%s with %j has a problem at %s, or none', (shape, settings, ...fields) => {
  const problems = kindProblems(kindSettings(shape, settings));
  expect(problems.map(({ field }) => field)).toEqual(fields);
});

test.each<[Shape, Partial<KindSettings>, number]>([
  ['digits', { suffix: false }, 1],
  ['digits', { suffix: false, begins_with: '000' }, 0],
  ['digits', { suffix: false, check_digits: 'luhn' }, 2],
  ['digits', { check_digits: 'luhn' }, 1],
  ['digits', { check_digits: 'mod97' }, 0],
  ['date', { suffix: false }, 1],
  ['email', { suffix: false, keep: 'domain' }, 1],
  ['text', { suffix: false }, 1],
  ['uuid', { suffix: false }, 0],
  ['word', { suffix: false }, 0],
])('where a token could be real, %s with %j has %i warnings', (shape, settings, count) => {
  expect(kindWarnings(kindSettings(shape, settings))).toHaveLength(count);
});

describe('normalize', () => {
  const normalized = (settings: Partial<KindSettings>, text: string, shape: Shape = 'text') => {
    const accepted = kindOf(kindSettings(shape, settings)).accept(text);
    return 'reason' in accepted ? accepted.reason : accepted.value;
  };

  test('trim takes away what Unicode calls white space, at both ends only', () => {
    const space = Array.from({ length: 0x1_0000 }, (_, unit) => String.fromCharCode(unit)).filter(
      (unit) => /\p{White_Space}/u.test(unit),
    );
    expect(space).toHaveLength(25);
    const text = `${space.join('')}a ${space.join('')} b${space.join('')}`;
    expect(normalized({ normalize: ['trim'] }, text)).toBe(text.slice(25, -25));
    expect(normalized({ normalize: ['trim'] }, '\u200b\ufeffa')).toBe('\u200b\ufeffa');
  });

  test('lower case is the same in every country', () => {
    const normalize = ['lower_case'] as const;
    expect(normalized({ normalize }, 'TITLE ΌΔΟΣ ẞ')).toBe('title όδος ß');
    expect(normalized({ normalize }, 'İ')).toBe('i\u0307');
  });

  test('a value that grows beyond 64 KiB is refused', () => {
    const normalize = ['lower_case'] as const;
    const reason = 'has more than 65536 bytes when it is in lower case';
    // Two bytes in UTF-8 become three.
    expect(normalized({ normalize }, 'Ⱥ'.repeat(21_846))).toBe(reason);
    expect(normalized({ normalize }, 'Ⱥ'.repeat(21_845))).toBe('ⱥ'.repeat(21_845));
    expect(normalized({ normalize }, 'A'.repeat(65_536))).toBe('a'.repeat(65_536));
  });

  test.each([
    ['0711 123456', 'DE', '+49711123456'],
    ['+49 (0) 711 / 12 34-56', 'US', '+49711123456'],
    [' (212) 555-0100 ', 'US', '+12125550100'],
    ['٠٧١١ ١٢٣٤٥٦', 'DE', '+49711123456'],
    ['+39 06 1234 5678', null, '+390612345678'],
    ['0711 123456', null, 'is not a telephone number with + and country code'],
    // Read again, this would lose another zero.
    ['0-00-0000', 'DE', 'is not a telephone number of DE, or with +'],
    ['110', 'DE', 'is not a telephone number of DE, or with +'],
    ['call 0711 123456', 'DE', 'is not a telephone number of DE, or with +'],
    ['0711 123456 ext. 5', 'DE', 'has an extension, which E.164 cannot have'],
    ['', 'DE', 'is not a telephone number of DE, or with +'],
    ['0\u2009170\u202f12345\u201167', 'DE', '+491701234567'],
  ])('e164 of %j in %s is %s', (text, country, expected) => {
    expect(normalized({ normalize: ['trim', 'e164'], country }, text, 'digits')).toBe(expected);
  });

  test('what is normalized alike has one value', () => {
    const settings = { normalize: ['trim', 'lower_case'] as const };
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const value = normalized(settings, text);
        expect(normalized(settings, ` ${text}\t`)).toBe(value);
        expect(normalized(settings, value)).toBe(value);
      }),
    );
  });
});

const FEW = 'has too few digits for kind one: 6 must be free';
const FEW_CHARACTERS = 'has too few characters for kind one: 5 must be free';
const CHARACTER = 'has a character that is no digit, letter or punctuation of ASCII';
const IBAN = 'does not begin with two letters and two check digits';
const NO_ADDRESS = 'is not an e-mail address of at most 256 characters';
const NO_DATE = 'is not a real date like 1985-04-12, 12.04.1985 or 4/12/85';
const DIGITS = 'has no four-digit year, two-digit month and day: without suffix it needs them';
const PUNYCODE = 'has a domain to keep that is not ASCII: write it in Punycode (xn--...)';
const ends = { keep_first: 6, keep_last: 4 };
const luhn = { check_digits: 'luhn' } as const;
const mod97 = { check_digits: 'mod97' } as const;
const domain = { keep: 'domain' } as const;
const bare = { suffix: false };

test.each<[Shape, Partial<KindSettings>, string, string]>([
  ['digits', ends, '411111111111111', FEW],
  ['digits', { ...ends, ...luhn }, '4111111111111111', FEW.replace('6', '7')],
  ['digits', bare, '12345', FEW],
  ['digits', { begins_with: '000' }, '123', FEW],
  ['digits', {}, ' 123456', 'begins or ends with a space'],
  ['digits', {}, '123456\u00a0', 'begins or ends with a space'],
  ['digits', {}, '١٢٣٤٥٦', CHARACTER],
  ['digits', {}, '12345\u0120', CHARACTER],
  ['digits', {}, '123456\u001f7', CHARACTER],
  ['digits', {}, '123456\u007f', CHARACTER],
  ['digits', {}, 'none', 'has no digit'],
  ['digits', {}, '', 'has no digit'],
  ['digits', {}, '1'.repeat(257), 'has more than 256 characters'],
  ['digits', luhn, '41111111X', 'has a letter, which luhn refuses'],
  ['digits', mod97, '8937 0400 4405', IBAN],
  ['digits', mod97, 'DE89', IBAN],
  ['email', {}, 'ann@example', NO_ADDRESS],
  ['email', {}, `${'a'.repeat(251)}@b.com`, NO_ADDRESS],
  ['email', domain, 'ann@bücher.de', PUNYCODE],
  [
    'email',
    domain,
    'ann@4111111111111111.de',
    'has a domain to keep that looks like a card number',
  ],
  ['email', { ...domain, ...bare }, 'ann@example.com', FEW_CHARACTERS],
  ['date', {}, '1985-02-29', NO_DATE],
  ['date', {}, '0999-02-28', NO_DATE],
  ['date', {}, '12.04-1985', NO_DATE],
  ['date', {}, '1985-04-12T24:00', NO_DATE],
  ['date', {}, '1985-04-0:', NO_DATE],
  ['date', {}, '198-04-12', NO_DATE],
  ['date', {}, '1985-04', NO_DATE],
  ['date', {}, '1985-04-', NO_DATE],
  ['date', {}, '1985-04-012', NO_DATE],
  ['date', {}, '4121985', NO_DATE],
  ['date', { keep: 'year' }, '05-04-03', 'has a year to keep that could be its month or day'],
  ['date', bare, '4/12/1985', DIGITS],
  ['date', bare, '12.04.85', DIGITS],
  ['text', bare, 'abcd', 'has too few letters and digits for kind one: 5 must be free'],
  ['text', bare, 'a'.repeat(257), 'is longer than 256 characters'],
])('%s %j refuses %j: it %s', (shape, settings, text, reason) => {
  expect(kindOf(kindSettings(shape, settings)).accept(text)).toEqual({ reason });
});

test('values of 256 characters are taken, and ASCII punctuation stays in tokens of digits', () => {
  const longest = { digits: '/:@[`{~12Zz'.padEnd(256, '0'), uuid: 'x'.repeat(256) };
  for (const [shape, value] of Object.entries({
    ...longest,
    email: 'a@b.com'.padStart(256, 'a'),
  })) {
    const kind = kindOf(kindSettings(shape as Shape));
    expect(kind.accept(value)).toEqual({ value });
    const { token } = kind.drawToken(value as Value, 'tok', seededDraws(shape), 0)!;
    if (shape === 'digits') expect(token).toMatch(/^\/:@\[`\{~\d\d[A-Z][a-z]\d{245}_tok$/);
    if (shape === 'email') expect(kind.mask(value)).toBe('a***@b.com');
  }
});
