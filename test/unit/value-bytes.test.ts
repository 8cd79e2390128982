import fc from 'fast-check';
import { expect, test } from 'vitest';
import { aroundBlanks } from '../../src/public/body/data.ts';
import {
  jsonBytes,
  largeResponse,
  mostJsonBytes,
} from '../../src/public/transport/large-response.ts';
import { drawToken } from '../../src/shape/kind.ts';
import { mostValueBytes } from '../../src/tokens/value-bytes.ts';
import { MAX_VALUE_BYTES, type Value } from '../../src/types.ts';

const values = fc.string({ unit: 'binary', maxLength: 400 });
const draws = (draw: number, block: number) =>
  String.fromCharCode(...Array.from({ length: 64 }, (_, i) => (i * 7 + draw * 31 + block) % 200));

test('a token tells how long its value can be', () => {
  fc.assert(
    fc.property(values, (value) => {
      const { token } = drawToken(value as Value, 'tok', draws, 0)!;
      expect(mostValueBytes(token, false, '_tok')).toBeGreaterThanOrEqual(Buffer.byteLength(value));
    }),
  );
  const tokens = ['b_tok', 'b', `${'a'.repeat(251)}_tok`, `${'a'.repeat(252)}_tok`];
  const most = tokens.map((token) => mostValueBytes(token, false, '_tok'));
  expect(most).toEqual([20, 1_024, 1_020, MAX_VALUE_BYTES]);
  expect(mostValueBytes('b_tok', true, '_tok')).toBe(1_024);
});

test('the bytes of values as JSON are known before they are written', () => {
  const long = fc.constantFrom('\0'.repeat(2_000), 'é"'.repeat(1_000), 'a'.repeat(1_024));
  fc.assert(
    fc.property(fc.array(fc.oneof(values, long)), (all) => {
      const written = all.map((value) => Buffer.byteLength(JSON.stringify(value)) - 2);
      const bytes = written.reduce((sum, one) => sum + one, 0);
      expect(jsonBytes(all)).toBe(bytes);
      expect(mostJsonBytes(all)).toBeGreaterThanOrEqual(bytes);
    }),
  );
});

test('an answer in pieces is the answer as a whole, as long as was said, and each piece is judged', async () => {
  const data = fc.letrec((tie) => ({
    node: fc.oneof(
      { maxDepth: 4 },
      values,
      fc.array(tie('node')),
      fc.dictionary(fc.string(), tie('node')),
    ),
  })).node;
  const lengths = fc.constantFrom(0, 1, 66_000);
  await fc.assert(
    fc.asyncProperty(fc.dictionary(fc.string(), data), lengths, async (json, spaces) => {
      const strings: string[] = [];
      const blank = JSON.stringify(json, (_, inner) => {
        if (typeof inner !== 'string') return inner;
        strings.push(inner);
        return '';
      });
      const list = [',"list":', '[', ' '.repeat(spaces), ']'];
      let judged = 0;
      const answer = largeResponse(
        {
          ...{ before: '{"data":', values: strings, list, after: ',"é":1}' },
          around: () => aroundBlanks(blank),
        },
        jsonBytes(strings) + list.join('').length,
        async () => {
          await new Promise(setImmediate);
          judged++;
        },
        () => {},
      );
      const pieces: Buffer[] = [];
      for await (const piece of answer.body) {
        pieces.push(piece);
        expect(judged).toBeGreaterThanOrEqual(pieces.length);
      }
      expect(judged).toBe(pieces.length);
      for (const { length } of pieces.slice(0, -1)) expect(length).toBeGreaterThanOrEqual(65_536);
      const text = Buffer.concat(pieces).toString();
      const after = `,"list":[${' '.repeat(spaces)}],"é":1}`;
      expect(text).toBe(`{"data":${JSON.stringify(json)}${after}`);
      expect(answer.bytes).toBe(Buffer.byteLength(text));
    }),
  );
});

test('many large answers take turns: one piece in a turn of the event loop, whoever reads', async () => {
  const values = Array.from({ length: 100 }, (_, i) => `${i}`.padEnd(10_000, 'x'));
  let takenInTurn = 0;
  let most = 0;
  let isOver = false;
  const turn = () => {
    most = Math.max(most, takenInTurn);
    takenInTurn = 0;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  const lengths = await Promise.all(
    Array.from({ length: 20 }, async () => {
      let taken = 0;
      // The first piece of each waits for nobody.
      const onTaken = () => void (taken++ > 0 && takenInTurn++);
      const { body } = largeResponse(
        {
          ...{ before: '', values, list: [], after: '' },
          around: () => aroundBlanks(JSON.stringify(values.map(() => ''))),
        },
        jsonBytes(values),
        async () => {},
        onTaken,
      );
      return Buffer.concat(await body.toArray()).length;
    }),
  );
  isOver = true;
  expect(new Set(lengths)).toEqual(new Set([JSON.stringify(values).length]));
  expect(most).toBe(1);
});
