import fc from 'fast-check';
import { expect, test } from 'vitest';
import { DETECTORS } from '../../src/detect/detectors.ts';
import {
  chosen,
  entitiesOf,
  type Found,
  finderOf,
  foundOf,
  inWhole,
  windowsOf,
} from '../../src/detect/found.ts';
import { patternProblem } from '../../src/detect/pattern.ts';
import { TextOffsets } from '../../src/detect/text-offsets.ts';
import { Words } from '../../src/detect/words.ts';

const settings = (country: string | null, ...more: string[]) =>
  [...DETECTORS, ...more].map((detector) => ({ detector, kind: detector, country }));

function found(text: string, country: string | null = 'DE', ...more: string[]): Found[] {
  const all = settings(country, ...more);
  const find = finderOf(all);
  const parts = windowsOf(text).flatMap((one) => inWhole(one, foundOf(find(one.text), all)));
  return chosen(text, parts, []);
}

const shown = (text: string, ...more: [country?: string | null, ...string[]]) =>
  found(text, ...more).map(({ from, to, kind }) => `${kind} ${text.slice(from, to)}`);

/** Values between ⟦ and ⟧, each of the kind before the text. */
const LABELLED: readonly (readonly [kind: string, text: string, country?: string | null])[] = [
  ['email', '<⟦Ann.Lee+x@mail.example.co.uk⟧>, mailto:⟦jörg@müller.de⟧. "⟦o\'neil_1@x-y.io⟧"!'],
  ['email', `Write to '⟦a@b.de⟧', ⟦${'a'.repeat(64)}@b.de⟧; not a@b, @b.de, a@.de or a@@b.`],
  ['card', 'Card ⟦4111 1111 1111 1111⟧ 12/27, ⟦5500-0000-0000-0004⟧, ⟦378282246310005⟧.'],
  ['card', '⟦4111\u20111111\u20111111\u20111111⟧; ⟦5500\u20090000\u20130000\u20100004⟧'],
  ['card', '⟦4111 1111 1111 1111 110⟧; ⟦4012 8888 8888 1881⟧ 0002; 41111111111111111115'],
  ['card', '⟦4222222222222⟧, 411111111117, ZZ191111111111 and ZZ18ABCDEFGHIJK1234567', null],
  ['iban', `⟦ZZ08${'1'.repeat(30)}⟧, ⟦ZZ49ABCDEFGHIJK12345678⟧, ZZ41${'1'.repeat(31)}`, null],
  ['phone', '12 1234 ⟦650-253-0000⟧; (⟦650-253-0000⟧ (1); ⟦650-253-0000⟧ 1 2 4', 'US'],
  ['phone', 'Tel. ⟦+49\u2011170\u20111234567⟧ or ⟦030\u20091234567⟧'],
  ['card', 'No card: 4111 1111 1111 1112, 41111111111111111111, x4111111111111111.'],
  ['iban', '⟦DE89 3704 0044 0532 0130 00⟧ and ⟦gb82west12345698765432⟧, ⟦NO93 8601 1117 947⟧'],
  ['iban', 'de12 ⟦MT84 MALT 0110 0001 2345 MTLC AST0 01S⟧; ⟦DE89 370 400 44 0532013000⟧'],
  ['iban', 'None: DE88 3704 0044 0532 0130 00, AB12 is the code of the house', null],
  ['phone', 'unter ⟦030 1234567⟧, (⟦+49 170 1234567⟧), ⟦0049-30-1234567⟧, ⟦+1 (650) 253-0000⟧'],
  ['phone', '12 ⟦030 1234567⟧ or ⟦+49 (0)170 1234567⟧ on 12.05.2024 and 2024-05-12, no 20240512'],
  ['phone', 'Call ⟦(650) 253-0000⟧ or ⟦650-253-0000⟧ before 12/05/2024.', 'US'],
  ['phone', 'Without a country: ⟦+33 1 70 18 99 00⟧, ⟦+420 212 345 678⟧, not 030 1234567.', null],
  ['url', 'See ⟦postgres://bob:p@ss@db.intern:5432/x?y=1⟧, not https://example.com/a@b'],
  ['phone', 'call ⟦212-555-0100⟧x87, ⟦(666) 224-1702⟧. ISBN 978-3-16-148410-0', 'US'],
  ['phone', 'on 2024-07-03 07:27:52, version 1.2.3 of 12.11.2026', 'US'],
  ['ip', 'host ⟦26.231.114.51⟧ is away, ⟦10.4.12.7⟧:8443 refused ⟦fe80::1:22⟧', 'US'],
  ['ip', 'From ⟦10.0.0.1⟧, ⟦2001:db8::1⟧ and ⟦::ffff:10.0.0.1⟧. Not 12:30:45, 1.2.3 or 999.1.1.1'],
];

test.each(LABELLED)('%s in %s', (kind, labelled, country = 'DE') => {
  const text = labelled!.replace(/[⟦⟧]/g, '');
  const values = [...labelled!.matchAll(/⟦(.*?)⟧/g)].map(([, value]) => `${kind} ${value}`);
  expect(shown(text, country)).toEqual(values);
});

/** JSON within a text, such as the arguments of a tool. */
test.each([
  ['card', '4111 1111 1111 1111'],
  ['iban', 'GB82 WEST 1234 5698 7654 32'],
  ['phone', '+44 20 7946 0958'],
  ['phone', '(666)224-1702'],
  ['ip', '10.4.12.7'],
])('a %s is found behind an escape of JSON: %s', (kind, value) => {
  for (const before of ['\\n', '\\t', '\\r', '\\u00a0', '\\ud83d\\udc4b']) {
    const text = `{"note":"a:${before}${value}${before}"}`;
    expect(shown(text, 'US'), before).toEqual([`${kind} ${value}`]);
  }
});

test('own patterns find in linear syntax, and each mistake has its remedy', () => {
  expect(shown('S-123456, s-1, XS-9999999 ERSO', null, '/\\bS-[0-9]{6}\\b/', 'PERSON')).toEqual([
    '/\\bS-[0-9]{6}\\b/ S-123456',
  ]);
  const finders = found('a@b.de S-1', null, '/S-1/').map(({ finder }) => finder);
  expect(finders).toEqual(['email', 'pattern']);
  const entities = entitiesOf(settings(null, '/S-1/', 'PERSON'));
  expect(entities.map(({ detector }) => detector)).toEqual(['PERSON']);
  expect(patternProblem('/S-[0-9]{6}')).toContain('must end with a slash');
  expect(patternProblem('/(/')).toContain('is not RE2 syntax: missing closing )');
  expect(patternProblem('/(?=a)b/')).toContain('is not RE2 syntax');
  expect(patternProblem('/a*/')).toContain('matches the empty text');
  expect(patternProblem('/a{98}/')).toBeUndefined();
  expect(patternProblem('/a{99}/')).toContain('is too large');
  expect(patternProblem(`/[${'a'.repeat(197)}]/`)).toContain('has more than 200 characters');
  expect(patternProblem(`/[${'a'.repeat(196)}]/`)).toBeUndefined();
});

test('a pattern that begins again and again is stopped', () => {
  const [own] = settings(null, '/a[^x]*x|a/').slice(-1);
  expect(() => finderOf([own!])('a'.repeat(12_000))).toThrow();
});

test('a value is found wherever it stands, also where parts of a long text meet', () => {
  const values = ['ann.lee@example.com', '4111 1111 1111 1111', '+49 170 1234567'];
  fc.assert(
    fc.property(
      fc.integer({ min: 7_000, max: 17_000 }),
      fc.constantFrom(...values),
      (at, value) => {
        const text = `${'Das ist 1 Wort. '.repeat(1_200).slice(0, at)} ${value} ${'und. '.repeat(900)}`;
        expect(shown(text).map((one) => one.replace(/^\w+ /, ''))).toEqual([value]);
      },
    ),
  );
});

test('a long text is searched in parts, each with what is around it, and finds its own', () => {
  expect(windowsOf('x'.repeat(8_192)).length).toBe(1);
  const [, second] = windowsOf('x'.repeat(20_000));
  expect(second).toEqual({ text: 'x'.repeat(12_992), at: 5_792, from: 8_192, to: 16_384 });
  const starts = [2_399, 2_400, 10_591, 10_592].map((from) => ({ from, to: from }));
  expect(inWhole(second!, starts).map(({ to }) => to)).toEqual([8_192, 16_383]);
});

test('of what overlaps, the longest gives the kind, and no part stays in clear', () => {
  const text = 'https://bob:pw@ann.example.com/?m=ann@example.com rest';
  expect(shown(text)).toEqual(['url https://bob:pw@ann.example.com/?m=ann@example.com']);
  const found = (from: number, to: number, kind: string, finder: Found['finder']) => ({
    ...{ from, to, kind, finder },
  });
  const all = [found(10, 18, 'a', 'presidio'), found(13, 22, 'b', 'phone')];
  const more = [found(21, 23, 'c', 'url'), found(23, 25, 'd', 'ip')];
  const made = [found(10, 23, 'b', 'phone'), found(23, 25, 'd', 'ip')];
  expect(chosen('x'.repeat(30), [...all, ...more], [])).toEqual(made);
  const same = [found(0, 5, 'a', 'phone'), found(0, 5, 'b', 'card'), found(0, 5, 'c', 'card')];
  expect(chosen('x'.repeat(20), same, [])).toEqual([found(0, 5, 'b', 'card')]);
});

test('what is taken is no part of a stretch, and the rest of it stays none in clear', () => {
  const text = 'a@b.de https://bob:pw@x.de/abcdefghij_tok?q=1.';
  const from = text.indexOf('abcdefghij');
  const taken = [{ from, to: from + 14 }];
  const all = settings(null);
  const parts = chosen(text, foundOf(finderOf(all)(text), all), taken);
  expect(parts.map((one) => text.slice(one.from, one.to))).toEqual([
    'a@b.de',
    'https://bob:pw@x.de',
    'q=1',
  ]);
  const after: Found = { from: 5, to: 13, kind: 'a', finder: 'phone' };
  const beside = [0, 13].map((from) => ({ from, to: from + 5 }));
  expect(chosen('a_tok+1234567b_tok', [after], beside)).toEqual([after]);
  // A span of the caller with a token in it.
  const nested = [5, 6].map((from) => ({ from, to: 15 - from }));
  expect(chosen('a_tok+1234567', [after], nested)).toEqual([{ ...after, from: 10 }]);
});

test('a long value is several, none of which a kind refuses', () => {
  // The 256th character is the first half of 😀.
  const text = `ftp://ann:pw@${'x/😀'.repeat(300)}`;
  const parts = found(text);
  expect(parts.length).toBeGreaterThan(3);
  expect(parts.map(({ from, to }) => text.slice(from, to)).join('')).toBe(text);
  for (const { from, to } of parts) {
    expect(to - from).toBeLessThanOrEqual(256);
    expect(text.slice(from, to).isWellFormed()).toBe(true);
  }
  // A URL ends after 2,000 units at most, before a pair that has no room.
  const cut = found(`ftp://ann:pw@${'x'.repeat(1_999)}😀 and`);
  expect(cut.at(-1)!.to).toBe(2_012);
});

test('offsets in code points are those in UTF-16 units, where each character begins', () => {
  for (const text of ['', 'abc', 'a\ud800', 'a😀\uffff\ud800é😀', '😀']) {
    const offsets = new TextOffsets(text);
    const characters = [...text];
    expect(offsets.length).toBe(characters.length);
    for (let point = 0; point <= characters.length; point++) {
      const unit = characters.slice(0, point).join('').length;
      expect([offsets.unitOf(point), offsets.pointOf(unit)]).toEqual([unit, point]);
      expect(offsets.has(point)).toBe(true);
    }
    for (const other of [-1, characters.length + 1, 0.5, '0', null])
      expect(offsets.has(other)).toBe(false);
  }
});

test('listed words: whole, in any case, the longest first, also in scripts without spaces', () => {
  const words = new Words();
  const listed = ['Maria', 'Maria Weber', "O'Neil-Smith", '玛丽亚', 'Jörg', 'b '.repeat(20)];
  for (const [i, word] of listed.entries()) expect(words.add(word, `${i}`)).toBe(true);
  expect(words.add('...', '0')).toBe(false);
  expect(words.add('a '.repeat(21), '0')).toBe(false);
  const text = "MARIA\nWEBER's, Mariana, maria; o'neil-smith 我叫玛丽亚的 Jo\u0308rg";
  const found = words.find(text).map(({ from, to, kind }) => [text.slice(from, to), Number(kind)]);
  expect(found).toEqual([
    ['MARIA\nWEBER', 1],
    ['maria', 0],
    ["o'neil-smith", 2],
    ['玛丽亚', 3],
    ['Jo\u0308rg', 4],
  ]);
});
