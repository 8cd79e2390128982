import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { kindOf } from '../../src/shape/kind.ts';
import type { KindSettings, MaskSettings, Shape } from '../../src/shape/kind-settings.ts';
import { kindSettings, kinds, texts } from '../support/kinds.ts';
import { Random } from '../support/random.ts';
import { naughtyStrings } from '../support/samples.ts';

const { seed } = new Random();

/** Texts whose characters, letters and places are easy to miscount. */
const hostile = fc.oneof(
  texts,
  fc.string({
    unit: fc.constantFrom(...'a1\u0301\u200b\u202e\ud83d\ude00\ufe0f \n-@.'),
    maxLength: 30,
  }),
  fc.string({
    unit: fc.constantFrom('😀', '👩‍👩‍👧', 'e\u0301', 'ﷺ', '\ud800', '\udfff', '٣', '字', 'x', '7'),
  }),
  fc.string({ unit: fc.constantFrom(...'0123456789-\u200b\u0301'), maxLength: 12 }),
);

const letters = (text: string) => text.match(/[\p{L}\p{N}]/gu) ?? [];

/** The parts of a value that a mask shows, in order: what is left without stars and their spaces. */
function shown(masked: string): string[] {
  const parts = masked.split('****');
  expect(parts).toHaveLength(2);
  expect(parts[0] === '' || parts[0]!.endsWith(' ')).toBe(true);
  expect(parts[1] === '' || parts[1]!.startsWith(' ')).toBe(true);
  return [parts[0]!.replace(/ $/, ''), parts[1]!.slice(1)];
}

/** Ends of a value: never more than asked for, never more than half of its letters and digits. */
function checkEnds({ shape, mask: show }: KindSettings, value: string, masked: string): void {
  if (show.show !== 'ends') throw new Error('no ends');
  const [first, last] = shown(masked) as [string, string];
  const seen = shape === 'digits' ? value.replace(/[^0-9A-Za-z]/g, '') : value;
  expect(seen.startsWith(first) && seen.endsWith(last)).toBe(true);
  expect([0, show.first]).toContain([...first].length);
  expect([0, show.last]).toContain([...last].length);
  const half = letters(seen).length / 2;
  expect([...first, ...last].length).toBeLessThanOrEqual(half);
  expect(letters(first + last).length).toBeLessThanOrEqual(letters(value).length / 2);
  expect(first + last).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u);
  expect([first, last].some((end) => /^\p{M}/u.test(end))).toBe(false);
}

function checkMask(settings: KindSettings, value: string): void {
  const masked = kindOf(settings).mask(value);
  const { show } = settings.mask;
  if (masked === '****') return;
  expect(show).not.toBe('nothing');
  if (show === 'year') {
    expect(masked).toMatch(/^(\d\d|\d{4})$/);
    expect(value).toContain(masked);
    expect(masked.length).toBeLessThanOrEqual(value.length / 2);
  } else if (show === 'domain') {
    const [local, domain, ...more] = value.split('@') as [string, string, ...string[]];
    expect(more).toEqual([]);
    const [lead, rest] = masked.split('***@') as [string, string];
    expect(rest).toBe(domain);
    expect(['', ...local].slice(0, 2)).toContain(lead);
    expect(letters(lead).length).toBeLessThanOrEqual(letters(local).length / 2);
    expect(masked).not.toMatch(/[\p{C}\p{Z}]/u);
  } else checkEnds(settings, value, masked);
}

describe('a mask never shows more than it says', () => {
  const showing = fc
    .tuple(kinds, fc.nat({ max: 6 }), fc.nat({ max: 6 }))
    .map(([kind, first, last]) =>
      kind.mask.show === 'nothing'
        ? { ...kind, mask: { show: 'ends' as const, first, last } }
        : kind,
    );

  test('of any text, also of one that the kind would refuse', () => {
    fc.assert(fc.property(showing, hostile, checkMask), { seed, numRuns: 5_000 });
  });

  test('of all naughty strings', () => {
    for (const settings of fc.sample(showing, { seed, numRuns: 20 })) {
      for (const value of naughtyStrings) checkMask(settings, value);
    }
  });

  test('of 64 KiB of any character, in a time that grows with the length', () => {
    const settings = kindSettings('text', { mask: { show: 'ends', first: 4, last: 4 } });
    for (const unit of ['a', '\u0301', ' ', '😀', '@', '-', '1']) {
      checkMask(settings, unit.repeat(65_536 / Buffer.byteLength(unit)));
    }
  });
});

const ends = (first: number, last: number) => ({ show: 'ends', first, last }) as const;
test.each<[Shape, MaskSettings | undefined, string, string]>([
  ['digits', undefined, '4242 4242 4242 4242', '**** 4242'],
  ['digits', undefined, 'DE89 3704 0044 0532 0130 00', '**** 3000'],
  ['digits', undefined, '1234-5678', '**** 5678'],
  ['digits', undefined, '123-4567', '****'],
  ['email', undefined, 'ann@example.com', 'a***@example.com'],
  ['email', undefined, 'a@example.com', '***@example.com'],
  ['email', undefined, '.ann@example.com', '***@example.com'],
  ['email', undefined, '李小龍@例え.jp', '李***@例え.jp'],
  ['email', undefined, 'ann@exa\u202emple.com', '****'],
  ['email', undefined, 'no address', '****'],
  ['date', undefined, '1985-04-12', '1985'],
  ['date', undefined, '19850412', '1985'],
  ['date', undefined, '31011985', '1985'],
  ['date', undefined, '4/12/85', '85'],
  ['date', undefined, '12.04.1985 10:20', '1985'],
  ['date', undefined, '05-04-03', '****'],
  ['date', undefined, 'in 1985', '****'],
  ['text', ends(6, 4), '4242424242424242', '**** 4242'],
  ['text', ends(4, 4), '4242424242424242', '4242 **** 4242'],
  ['text', ends(2, 0), '4242', '42 ****'],
  ['text', ends(0, 0), '4242', '****'],
  ['text', ends(0, 2), 'Ann Lee', '**** ee'],
  ['text', ends(1, 1), '😀😀ab😀cd', '😀 **** d'],
  ['text', ends(0, 4), '\u200b\u200b\u200b\u200b1234', '****'],
  ['text', ends(0, 4), '----1234', '****'],
  ['text', ends(0, 1), 'abcde\u0301', '****'],
  ['text', ends(1, 0), 'e\u0301tat', 'e ****'],
])('%s with the mask %j shows %s as %s', (shape, mask, value, masked) => {
  expect(kindOf(kindSettings(shape, mask && { mask })).mask(value)).toBe(masked);
});
