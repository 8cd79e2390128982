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

describe('a text that is no array', () => {
  test.each([
    ['{"a":"x"}', '{"a":"T"}'],
    ['\n{\n"a":\n"x"\n}\n', '\n{\n"a":\n"T"\n}\n'],
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
    ['[{}\n,', 'ends in the middle of its JSON'],
    ['[{},\n,{}]', 'Line 2 of the file is not JSON: a comma or bracket is wrong there'],
    ['[{}\n{}]', 'Line 2 of the file'],
    ['[{},\n\n]', 'Line 3 of the file'],
    ['[,{}]', 'Line 1 of the file'],
    ['[{}]\n]', 'Line 2 of the file'],
  ])('%j', async (text, message) => {
    for (let size = 1; size <= text.length; size++)
      await expect(json(text, 'a', undefined, size)).rejects.toThrow(message);
  });

  test('cut off anywhere', async () => {
    const one = '{"a":"x","n":[1,{"b":"]"}]}';
    const text = `[${one},${one}]`;
    for (let length = 1; length < text.length; length++)
      await expect(json(text.slice(0, length), 'a')).rejects.toThrow('ends in the middle of');
  });

  test('but for an item whose brackets fit, and a file of one text: they are bad rows', async () => {
    expect((await json('[{"a":"x"},\n{"a":tru}]', 'a')).problems).toEqual(['2: is not JSON']);
    for (const text of ['{"a":"x', '{}\n}', '{"a":"x"}{"a":"y"}'])
      expect((await json(text, 'a')).problems).toEqual(['1: is not JSON']);
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

const ndjson = (text: string | Buffer, fields: string, replace?: (value: string) => string) =>
  edited(text, { format: 'ndjson', fields }, replace);

const values = async (text: string, fields: string) =>
  (await ndjson(text, fields)).cells.map(({ value }) => value);

const NAME = /^[A-Za-z]\w*$/;

/** Paths and values of all strings that are not blank, found by a walk over the parsed JSON. */
function strings(json: unknown, path = ''): [string, string][] {
  if (typeof json === 'string') return json === '' ? [] : [[path, json]];
  if (Array.isArray(json)) return json.flatMap((one, i) => strings(one, `${path}[${i}]`));
  if (typeof json !== 'object' || json === null) return [];
  return Object.entries(json).flatMap(([name, one]) => {
    const step = NAME.test(name) ? `${path && '.'}${name}` : `[${JSON.stringify(name)}]`;
    return strings(one, path + step);
  });
}

describe('paths of NDJSON', () => {
  const row = JSON.stringify({
    customer: { emails: ['a@x.org', 'b@x.org'], 'full name': 'Ann', 'o\'dd, [n]ame"': 'Odd' },
    $: 'Dollar',
    orders: [{ to: 'One' }, { to: 'Two' }, { from: 'Three' }, null],
  });

  test.each([
    ['customer.emails[*]', ['a@x.org', 'b@x.org']],
    ['customer.emails[1]', ['b@x.org']],
    ['customer.emails[*],customer.emails[0]', ['a@x.org', 'b@x.org']],
    ['customer["full name"]', ['Ann']],
    ['customer.full name', ['Ann']],
    [String.raw`customer["o'dd, [n]ame\""]`, ['Odd']],
    ['orders[*].to', ['One', 'Two']],
    ['orders[*].to, orders[2].from ,customer.full name', ['Ann', 'One', 'Two', 'Three']],
    ['$.customer.full name, $.orders[1].to', ['Ann', 'Two']],
    ['$["customer"].emails[0]?', ['a@x.org']],
    ['$["$"]', ['Dollar']],
    ['nothing.there[*],customer.emails[7],customer.phone', []],
  ])('%s', async (fields, found) => {
    expect(await values(row, fields)).toEqual(found);
  });

  test('lead to the same strings as in what JSON.parse gives, and to no others', async () => {
    await fc.assert(
      fc.asyncProperty(fc.dictionary(fc.string(), fc.jsonValue()), async (json) => {
        const found = strings(JSON.parse(JSON.stringify(json)));
        if (found.length === 0) return;
        const text = JSON.stringify(json, null, '\t').replaceAll('\n', ' ');
        const fields = found.map(([path]) => path).join(',');
        const { output, cells, problems } = await ndjson(text, fields, (value) => `<${value}>`);
        expect(problems).toEqual([]);
        expect(cells).toHaveLength(found.length);
        const wanted = new Map(found.map(([path, value]) => [path, `<${value}>`]));
        expect(new Map(strings(JSON.parse(output.toString())))).toEqual(wanted);
      }),
    );
  });
});

describe('of NDJSON, what no path leads to is copied byte for byte', () => {
  test('spaces, large numbers, escapes, the order of names, invalid UTF-8, blank lines', async () => {
    const input = Buffer.concat([
      Buffer.from('\ufeff{ "n" : 12345678901234567890.10e+5 ,"e":"\\u0041\\/", "a" :\t"x" }\r\n\n'),
      Buffer.from(' \t\n{"b":[{"a":"no"},"]}\\\\"],"a":"y\\"\\\\","\xff":"\xc3"}', 'latin1'),
    ]);
    const { output, cells, rows, problems } = await ndjson(input, 'a', () => 'T');
    expect(problems).toEqual([]);
    expect(rows).toBe(2);
    expect(cells.map(({ value }) => value)).toEqual(['x', 'y"\\']);
    const wanted = input.toString('latin1').replace('"x"', '"T"').replace('"y\\"\\\\"', '"T"');
    expect(output.toString('latin1')).toBe(wanted);
  });

  test('a name may come twice, and be written with escapes', async () => {
    const { output } = await ndjson('{"a":"1","\\u0061":"2"}\n', 'a', () => 'T');
    expect(output.toString()).toBe('{"a":"T","\\u0061":"T"}\n');
  });

  test('in pieces of any size', async () => {
    const input = '{"a":"one"}\n{"a":"two"}\r\n\n{"a":"three"}';
    for (let size = 1; size < input.length; size++) {
      const { output } = await edited(input, { format: 'ndjson', fields: 'a' }, undefined, size);
      expect(output.toString()).toBe(input);
    }
  });
});

describe('rows of NDJSON', () => {
  test('blank, null or missing is no value, and nothing is wrong with it', async () => {
    const input = '{"a":""}\n{"a":null}\n{}\n{"b":{"c":1}}\n{"x":null}\n';
    const { output, cells, problems } = await ndjson(input, 'a,x.y[*]', () => 'T');
    expect({ cells, problems }).toEqual({ cells: [], problems: [] });
    expect(output.toString()).toBe(input);
  });

  test.each([
    ['{"a":7}', 'a', '1: a is a number, not a string'],
    ['{"a":true}', 'a', '1: a is a boolean, not a string'],
    ['{"a":{"b":"c"}}', 'a', '1: a is an object: name fields inside it'],
    ['{"a":["b"]}', 'a', '1: a is an array: write a[*] for all its items'],
    ['{"a":"b"}', 'a.b', '1: a is a string, and a field is named inside it'],
    ['{"a":["b"]}', 'a.b', '1: a is an array: the path does not fit'],
    ['{"a":{"b":"c"}}', 'a[*]', '1: a is an object: the path does not fit'],
    ['{"a":["b"]}', 'a[*],a[0].b', '1: a[0] is a string, and a field is named inside it'],
    ['{"a":[{"b":"c","d":"e"}]}', 'a[*],a[0].b', '1: a[*] is an object: name fields inside it'],
    ['["b"]', 'a', '1: is an array: the path does not fit'],
    ['7', 'a', '1: is a number, not a string'],
    ['{"a":"b"', 'a', '1: is not JSON'],
    ['{"a":"b"}{}', 'a', '1: is not JSON'],
    ['\n\n{"a":"\\ud800"}', 'a', '3: a has half of a surrogate pair'],
    [`{"a":"${'x'.repeat(65_537)}"}`, 'a', '1: a is longer than 65536 bytes'],
  ])('%s with %s', async (input, fields, problem) => {
    expect((await ndjson(input, fields)).problems).toEqual([problem]);
  });

  test('nesting of any depth beside the path', async () => {
    const deep = `{"d":${'['.repeat(50_000)}${']'.repeat(50_000)},"a":"x"}\n`;
    const { output } = await ndjson(deep, 'a', () => 'T');
    expect(output.toString()).toBe(deep.replace('"x"', '"T"'));
  });

  test('invalid UTF-8 where a path leads', async () => {
    const { problems } = await ndjson(Buffer.from('{"a":"\xff"}', 'latin1'), 'a');
    expect(problems).toEqual(['1: a is not UTF-8']);
  });
});
