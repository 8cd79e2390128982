import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readBlocks } from '../src/blocks.ts';
import { readBeginning } from '../src/header.ts';
import { edited, inputOf } from './edited.ts';

const json = (
  text: string | Buffer,
  fields: string,
  replace?: (value: string) => string,
  size?: number,
) => edited(text, { format: 'json', fields }, replace, size);

/** JSON with spaces and line ends in all the places that allow them. */
const indents = fc.constantFrom(undefined, 1, '\t', '\n \r\n');

test('the items of any array are rows; with other values it is the array with other values', async () => {
  const items = fc.array(fc.record({ a: fc.string({ minLength: 1 }), b: fc.jsonValue() }));
  await fc.assert(
    fc.asyncProperty(
      items,
      indents,
      fc.integer({ min: 1, max: 300 }),
      async (rows, indent, size) => {
        const textOf = (items: object[]) => `\ufeff ${JSON.stringify(items, null, indent)}\n`;
        const found = await json(textOf(rows), 'a', (a) => `<${a}>`, size);
        expect([found.problems, found.rows]).toEqual([[], rows.length]);
        const others = rows.map(({ a, b }) => ({ a: `<${a}>`, b }));
        expect(found.output.toString()).toBe(textOf(others));
      },
    ),
  );
});

test('bytes that no path leads to are copied: spaces, numbers, escapes, invalid UTF-8', async () => {
  const text = '[ {"n":1.10e+5,"e":"\\u0041\\/]","\xff":"\xc3","a" : "x"}\r\n ,\n7 , [ ] ]\n\n';
  const { output, problems } = await json(Buffer.from(text, 'latin1'), 'a', () => 'T');
  expect(problems).toEqual([
    '3: is a number, not a string',
    '3: is an array: the path does not fit',
  ]);
  expect(output.toString('latin1')).toBe(
    '[ {"n":1.10e+5,"e":"\\u0041\\/]","\xff":"\xc3","a" : "T"} ]\n\n',
  );
});

describe('texts that are no array', () => {
  test.each([
    ['{"a":"x"}', '{"a":"T"}'],
    ['\n{\n"a":\n"x"\n}\n', '\n{\n"a":\n"T"\n}\n'],
    ['{"a":"x"}\n{"a":"y"}\n', '{"a":"T"}\n{"a":"T"}\n'],
    ['{"a":"x"}{"a":""} ', '{"a":"T"}{"a":""} '],
    ['', ''],
    [' \n', ' \n'],
    ['[]', '[]'],
    ['[ ]\n', '[ ]\n'],
  ])('%j', async (text, output) => {
    for (let size = 1; size <= text.length + 1; size++) {
      const found = await json(text, 'a', () => 'T', size);
      expect([found.output.toString(), found.problems]).toEqual([output, []]);
    }
  });
});

describe('what is not JSON ends the run with the line', () => {
  test.each([
    ['[', 'ends in the middle of its JSON'],
    ['[1', 'ends in the middle of its JSON'],
    ['[{}\n,', 'ends in the middle of its JSON'],
    ['{"a":"x', 'ends in the middle of its JSON'],
    ['[{},\n,{}]', 'Line 2 of the file is not JSON: a comma or bracket is wrong there'],
    ['[{}\n{}]', 'Line 2 of the file'],
    ['[{},\n\n]', 'Line 3 of the file'],
    ['[,{}]', 'Line 1 of the file'],
    ['[{}]\n]', 'Line 2 of the file'],
    ['{}\n}', 'Line 2 of the file'],
    ['{},{}', 'Line 1 of the file'],
  ])('%j', async (text, message) => {
    for (let size = 1; size <= text.length; size++)
      await expect(json(text, 'a', undefined, size)).rejects.toThrow(message);
  });

  test('cut off anywhere but between two texts', async () => {
    const one = '{"a":"x","n":[1,{"b":"]"}]}';
    for (const text of [`[${one},${one}]`, `${one}\n${one}`])
      for (let length = 1; length < text.length; length++)
        if (text.startsWith('[') || ![one.length, one.length + 1].includes(length))
          await expect(json(text.slice(0, length), 'a')).rejects.toThrow('ends in the middle of');
  });

  test('an item whose brackets fit is a bad row', async () => {
    expect((await json('[{"a":"x"},\n{"a":tru}]', 'a')).problems).toEqual(['2: is not JSON']);
  });
});

test.each(['$[*].a', '$[*]["a"]', '$.a', 'a'])('of an array, %s is a path', async (fields) => {
  const { output } = await json('[{"a":"x"}]', fields, () => 'T');
  expect(output.toString()).toBe('[{"a":"T"}]');
});

test('the rows before what is not JSON come before the failure', async () => {
  const input = inputOf(Buffer.from('[{"a":"x"},{"a":"y"},]'));
  const options = { format: 'json', fields: 'a', delimiter: undefined, hasHeader: true } as const;
  const { format } = await readBeginning(input, options, false);
  const blocks = readBlocks(input, format, 1);
  expect((await blocks.next()).value?.rows).toHaveLength(2);
  await expect(blocks.next()).rejects.toThrow('Line 1 of the file is not JSON');
});
