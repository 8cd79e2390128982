import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { defaultKind, kindOf, kindProblems, kindWarnings } from '../../src/shape/kind.ts';
import { type KindSettings, SHAPES, type Shape } from '../../src/shape/kind-settings.ts';
import { kindSettings } from '../support/kinds.ts';

const problems = (shape: Shape, settings: Partial<KindSettings>) =>
  kindProblems(kindSettings(shape, settings)).map(({ field }) => field);

test.each(SHAPES)('the defaults of %s have no problem and no warning', (shape) => {
  const settings = defaultKind('one', shape);
  expect(kindProblems(settings)).toEqual([]);
  expect(kindWarnings(settings)).toEqual([]);
  expect(settings).toMatchObject({ name: 'one', shape, suffix: true, length: 10, normalize: [] });
});

describe('check refuses', () => {
  test.each<[Shape, Partial<KindSettings>, keyof KindSettings]>([
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
  ])('%s with %j, at %s', (shape, settings, field) => {
    expect(problems(shape, settings)).toEqual([field]);
  });
});

describe('check allows', () => {
  test.each<[Shape, Partial<KindSettings>]>([
    ['digits', { keep_first: 7, keep_last: 4, check_digits: 'luhn' }],
    ['digits', { begins_with: '12345678901' }],
    ['digits', { begins_with: 'XX', check_digits: 'mod97' }],
    ['digits', { normalize: ['e164'], country: 'US' }],
    ['text', { normalize: ['trim', 'lower_case', 'e164'] }],
  ])('%s with %j', (shape, settings) => {
    expect(problems(shape, settings)).toEqual([]);
  });
});

describe('check warns where a token could be real', () => {
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
  ])('%s with %j', (shape, settings, count) => {
    expect(kindWarnings(kindSettings(shape, settings))).toHaveLength(count);
  });
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

describe('reasons', () => {
  test.each<[Shape, Partial<KindSettings>, string, string]>([
    [
      'digits',
      { keep_first: 6, keep_last: 4 },
      '411111111111111',
      'has too few digits for kind one: 6 must be free',
    ],
    [
      'digits',
      { keep_first: 6, keep_last: 4, check_digits: 'luhn' },
      '4111111111111111',
      'has too few digits for kind one: 7 must be free',
    ],
    ['digits', { suffix: false }, '12345', 'has too few digits for kind one: 6 must be free'],
    ['digits', { begins_with: '000' }, '123', 'has too few digits for kind one: 6 must be free'],
    ['digits', {}, ' 123456', 'begins or ends with a space'],
    ['digits', {}, '123456\u00a0', 'begins or ends with a space'],
    ['digits', {}, '١٢٣٤٥٦', 'has a character that is no digit, letter or punctuation of ASCII'],
    [
      'digits',
      {},
      '12345\u0120',
      'has a character that is no digit, letter or punctuation of ASCII',
    ],
    ['digits', {}, 'none', 'has no digit'],
    ['digits', {}, '', 'has no digit'],
    ['digits', {}, '1'.repeat(257), 'has more than 256 characters'],
    ['digits', { check_digits: 'luhn' }, '41111111X', 'has a letter, which luhn refuses'],
    [
      'digits',
      { check_digits: 'mod97' },
      '8937 0400 4405',
      'does not begin with two letters and two check digits',
    ],
    [
      'digits',
      { check_digits: 'mod97' },
      'DE89',
      'does not begin with two letters and two check digits',
    ],
    ['email', {}, 'ann@example', 'is not an e-mail address of at most 256 characters'],
    ['email', {}, `${'a'.repeat(251)}@b.com`, 'is not an e-mail address of at most 256 characters'],
    [
      'email',
      { keep: 'domain' },
      'ann@bücher.de',
      'has a domain to keep that is not ASCII: write it in Punycode (xn--...)',
    ],
    [
      'email',
      { keep: 'domain' },
      'ann@4111111111111111.de',
      'has a domain to keep that looks like a card number',
    ],
    [
      'email',
      { keep: 'domain', suffix: false },
      'ann@example.com',
      'has too few characters for kind one: 5 must be free',
    ],
    ['date', {}, '1985-02-29', 'is not a real date like 1985-04-12, 12.04.1985 or 4/12/85'],
    ['date', {}, '0985-02-28', 'is not a real date like 1985-04-12, 12.04.1985 or 4/12/85'],
    ['date', {}, '12.04-1985', 'is not a real date like 1985-04-12, 12.04.1985 or 4/12/85'],
    ['date', {}, '1985-04-12T24:00', 'is not a real date like 1985-04-12, 12.04.1985 or 4/12/85'],
    ['date', { keep: 'year' }, '05-04-03', 'has a year to keep that could be its month or day'],
    [
      'text',
      { suffix: false },
      'abcd',
      'has too few letters and digits for kind one: 5 must be free',
    ],
    ['text', { suffix: false }, 'a'.repeat(257), 'is longer than 256 characters'],
  ])('%s %j refuses %j: it %s', (shape, settings, text, reason) => {
    expect(kindOf(kindSettings(shape, settings)).accept(text)).toEqual({ reason });
  });

  test.each(['4/12/1985', '12.04.85'])('a date without suffix needs all its digits: %s', (text) => {
    const accepted = kindOf(kindSettings('date', { suffix: false })).accept(text);
    expect(accepted).toEqual({
      reason: 'has no four-digit year, two-digit month and day: without suffix it needs them',
    });
  });
});
