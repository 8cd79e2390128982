import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { TextOffsets } from '../../src/detect/text-offsets.ts';
import {
  heldFrom,
  placesOfNamed,
  TokenFinder,
  type TokenPlace,
} from '../../src/public/body/token-finder.ts';
import { kindOf } from '../../src/shape/kind.ts';
import { kindSettings } from '../support/kinds.ts';
import { inTurns } from '../support/loop.ts';

const WORD = kindOf(kindSettings('word'));
const LONG = kindOf(kindSettings('word', { name: 'long', length: 14 }));
const finder = new TokenFinder('tok', [WORD, LONG]);
const SHORT = kindOf(kindSettings('word', { name: 'short', length: 6 }));

function tokensOf({ candidate }: TokenPlace): string[] {
  const tokens: string[] = [];
  for (let found = candidate(0); found; found = candidate(tokens.length)) tokens.push(found.token);
  return tokens;
}

const tokensIn = (text: string, by = finder) => by.find(text, 1_000).map(tokensOf);

describe('tokens in running text', () => {
  const token = 'abcdefghij_tok';
  test.each([
    ...['#', '(#)', '"#", he said', '“#”', '**#**', '<b>#</b>', "#'s", '#s', '#.', 'name=#&x'],
    ...['mailto:#?', '我叫#。', 'Abcdefghij_tok sends', 'ABCDEFGHIJ_TOK', 'abcdefghij\\_tok'],
  ])('%s', (text) => {
    expect(tokensIn(text.replace('#', token))).toEqual([[token]]);
  });

  test.each([
    ['x-abcdefghij_tok', token, 'x-abcdefghij_tok'],
    ['Dr.Abcdefghij_TOK', token, 'Dr.Abcdefghij_tok'],
    ['xabcdefghij_tok', token, 'xabcdefghij_tok'],
    ['abcdefghijklmn_tok', 'abcdefghijklmn_tok', 'efghijklmn_tok'],
    ['to sgb@xijhmkd.ozi_tok', 'sgb@xijhmkd.ozi_tok'],
    ['qhk trt_tok', 'trt_tok'],
    [`${' '.repeat(130)}trt_tok`, 'trt_tok'],
  ])('%s: what comes before may belong to it', (text, ...candidates) => {
    expect(tokensIn(text)).toEqual([candidates]);
  });

  test('the end of another token could be a short word by chance, so the other token comes first', () => {
    const short = new TokenFinder('tok', [SHORT, WORD]);
    expect(tokensIn('x-abcdefghij_tok', short)).toEqual([
      [token, 'x-abcdefghij_tok', 'efghij_tok'],
    ]);
  });

  test('a run of letters that may go on before is no whole token', () => {
    const ofLength = (length: number) => tokensIn(`${'1'.repeat(length)}_tok`);
    expect(ofLength(255)).toEqual([[`${'1'.repeat(255)}_tok`]]);
    expect(ofLength(256)).toEqual([]);
  });

  test.each(['', 'no token', '_tok', ' _tok', 'abcdefghij_to', 'abcdefghij-tok'])(
    'nothing in "%s"',
    (text) => {
      expect(tokensIn(text)).toEqual([]);
    },
  );

  test('it stops looking when there are too many places, however many candidates each has', () => {
    expect(finder.find('abcdefghijklmn_tok '.repeat(50), 10)).toHaveLength(11);
  });
});

describe('a text in pieces', () => {
  /** The text that a caller gets who sends each piece after the rest of the one before. */
  function inPieces(pieces: readonly string[]): string {
    let rest = '';
    let restored = '';
    pieces.forEach((piece, i) => {
      const text = rest + piece;
      const places = finder.find(text, 1_000);
      const isLast = i === pieces.length - 1;
      const end = isLast ? text.length : heldFrom(text, places.at(-1)?.to ?? 0, 'tok');
      let from = 0;
      for (const place of places) {
        const { from: start, token } = place.candidate(0)!;
        restored += `${text.slice(from, start)}<${token}>`;
        from = place.to;
      }
      restored += text.slice(from, end);
      rest = text.slice(end);
    });
    return restored;
  }

  test('tokens that are cut anywhere are put together', () => {
    const others = ['Hello ', ' (', ') ', '_', '\\', '👩🏽', 'to', '\n'];
    const part = fc.constantFrom('abcdefghij_tok', 'klmnopqrst\\_tok', ...others);
    fc.assert(
      fc.property(fc.array(part), fc.array(fc.nat(60)), (parts, cuts) => {
        const text = parts.join('');
        const at = [...new Set(cuts.filter((cut) => cut < text.length))].sort((a, b) => a - b);
        const pieces = [0, ...at].map((cut, i) => text.slice(cut, at[i]));
        expect(inPieces(pieces)).toBe(inPieces([text]));
      }),
      { numRuns: 2_000 },
    );
  });

  test.each([
    ['Hello ', 6],
    ['Hello wor', 6],
    ['abcdefghij_tok', 14],
    ['a (abcdefghij_to', 3],
    ['a (abcdefghij\\', 3],
    ['a (abcdefghij\\_t', 3],
    ['a (\\_t', 4],
    ['a (ab\\_toto', 6],
    [`${'a'.repeat(1_000)}`, 744],
  ])('%j is held back from %i on', (text, from) => {
    expect(heldFrom(text, finder.find(text, 1).at(-1)?.to ?? 0, 'tok')).toBe(from);
  });
});

test('a suffix may have digits, also where an escaped token is cut', () => {
  expect(heldFrom('a (abcdefghij\\_t0', 0, 't0k')).toBe(3);
});

test('offsets count code points', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const offsets = new TextOffsets(text);
      const points = [...text];
      expect(offsets.length).toBe(points.length);
      points.forEach((_, i) => {
        const unit = points.slice(0, i).join('').length;
        expect([offsets.unitOf(i), offsets.pointOf(unit)]).toEqual([unit, i]);
      });
      expect(offsets.unitOf(points.length)).toBe(text.length);
      expect(offsets.pointOf(text.length)).toBe(points.length);
    }),
  );
});

test('to look at the candidates of many places gives way to other work every 500', async () => {
  const places = finder.find('abcdefghij_tok '.repeat(1_499), 2_000);
  for (const [count, turns] of [
    [499, 0],
    [500, 1],
    [1_499, 2],
  ] as const) {
    const work = () => placesOfNamed(places.slice(0, count), new Set(['abcdefghij_tok']));
    const { made, taken } = await inTurns(work);
    expect([made.length, taken]).toEqual([count, turns]);
    expect(tokensOf(made.at(-1)!)).toEqual(['abcdefghij_tok']);
  }
});
