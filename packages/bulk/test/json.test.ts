import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readBlocks } from '../src/blocks.ts';
import { leastRecord, readBeginning, valueIn } from '../src/header.ts';
import { DEFAULTS, edited, inputOf } from './edited.ts';

type Format = 'json' | 'ndjson';

/** JSON with spaces and line ends in all the places that allow them. */
const indents = fc.constantFrom(undefined, 1, '\t', '\n \r\n');

test('the items of any array are rows; with other values it is the array with other values', async () => {
  const items = fc.array(fc.record({ a: fc.string({ minLength: 1 }), b: fc.jsonValue() }));
  const sizes = fc.integer({ min: 1, max: 300 });
  await fc.assert(
    fc.asyncProperty(items, indents, sizes, async (rows, indent, size) => {
      const textOf = (items: object[]) => `\ufeff ${JSON.stringify(items, null, indent)}\n`;
      const options = { format: 'json', fields: 'a' } as const;
      const found = await edited(textOf(rows), options, (a) => `<${a}>`, size);
      expect([found.problems, found.rows]).toEqual([[], rows.length]);
      const others = rows.map(({ a, b }) => ({ a: `<${a}>`, b }));
      expect(found.output.toString()).toBe(textOf(others));
    }),
  );
});

const DEEP = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;
const LINES = '{"a":"x"}\n{"a":"y"}\r\n\n{"a":"z"}';
const BLANK = '{"a":""}\n{"a":null}\n{}\n{"b":{"c":1}}\n{"x":null}\n';

test.each<[Format, string, string, string]>([
  ['json', 'a', '{"a":"x"}', '{"a":"T"}'],
  ['json', 'a', '\n{\n"a":\n"x"\n}\n', '\n{\n"a":\n"T"\n}\n'],
  ['json', 'a', '', ''],
  ['json', 'a', ' \n', ' \n'],
  ['json', 'a', '[]', '[]'],
  ['json', 'a', '[ ]\n', '[ ]\n'],
  ...['$[*].a', '$[*]["a"]', '$.a'].map((path): [Format, string, string, string] => [
    'json',
    path,
    '[{"a":"x"}]',
    '[{"a":"T"}]',
  ]),
  ['ndjson', 'a', LINES, LINES.replaceAll(/"[xyz]"/g, '"T"')],
  // A name may come twice, and be written with escapes.
  ['ndjson', 'a', '{"a":"1","\\u0061":"2"}\n', '{"a":"T","\\u0061":"T"}\n'],
  // Blank, null or missing is no value, and nothing is wrong with it.
  ['ndjson', 'a,x.y[*]', BLANK, BLANK],
  ['ndjson', 'a', `{"d":${DEEP},"a":"x"}\n`, `{"d":${DEEP},"a":"T"}\n`],
])('%s, %s, in pieces of any size: %.60j', async (format, fields, text, output) => {
  for (let size = text.length > 100 ? text.length : 1; size <= text.length + 1; size++) {
    const found = await edited(text, { format, fields }, () => 'T', size);
    expect([found.output.toString(), found.problems]).toEqual([output, []]);
  }
});

test.each([
  ['[{}\n,', 'ends in the middle of its JSON'],
  ['[{},\n,{}]', 'Line 2 of the file is not JSON: a comma or bracket is wrong there'],
  ['[{}\n{}]', 'Line 2 of the file'],
  ['[{},\n\n]', 'Line 3 of the file'],
  ['[,{}]', 'Line 1 of the file'],
  ['[{}]\n]', 'Line 2 of the file'],
  ['{"a":"x', 'the file is neither one JSON array nor one JSON text'],
  ['{}\n}', 'the file is neither'],
  ['{"a":"x"}{"a":"y"}', 'if each line has a text, add --format ndjson'],
])('what is no array and no text ends the run with the line: %j', async (text, message) => {
  const options = { format: 'json', fields: 'a' } as const;
  for (let size = 1; size <= text.length; size++)
    await expect(edited(text, options, undefined, size)).rejects.toThrow(message);
});

test('an array that is cut off anywhere ends the run', async () => {
  const one = '{"a":"x","n":[1,{"b":"]"}]}';
  const text = `[${one},${one}]`;
  for (let length = 1; length < text.length; length++) {
    const cut = edited(text.slice(0, length), { format: 'json', fields: 'a' });
    await expect(cut).rejects.toThrow('ends in the middle of');
  }
});

test('the rows before what is not JSON come before the failure', async () => {
  const input = inputOf(Buffer.from('[{"a":"x"},{"a":"y"},]'));
  const options = { ...DEFAULTS, format: 'json', fields: 'a' } as const;
  const { format } = await readBeginning(input, options, false);
  const blocks = readBlocks(input, format, 1);
  expect((await blocks.next()).value?.rows).toHaveLength(2);
  await expect(blocks.next()).rejects.toThrow('Line 1 of the file is not JSON');
});

test.each<[string | Buffer, string, string, Format?]>([
  ['{"a":7}', 'a', '1: a is a number, not a string'],
  ['{"a":true}', 'a', '1: a is a boolean, not a string'],
  ['{"a":{"b":"c"}}', 'a', '1: a is an object: name fields inside it'],
  ['{"a":["b"]}', 'a', '1: a is an array: write a[*] for all its items'],
  ['{"a":"b"}', 'a.b', '1: a is a string, and a field is named inside it'],
  ['{"a":["b"]}', 'a.b', '1: a is an array: the path does not fit'],
  ['{"a":{"b":"c"}}', 'a[*]', '1: a is an object: the path does not fit'],
  ['{"a":["b"]}', 'a[0].b', '1: a[0] is a string, and a field is named inside it'],
  ['{"a":[{"b":"c"}]}', 'a[*]', '1: a[*] is an object: name fields inside it'],
  ['["b"]', 'a', '1: is an array: the path does not fit'],
  ['7', 'a', '1: is a number, not a string'],
  ['{"a":"b"', 'a', '1: is not JSON'],
  ['{"a":"b"}{}', 'a', '1: is not JSON'],
  ['\n\n{"a":"\\ud800"}', 'a', '3: a has half of a surrogate pair'],
  [`{"a":"${'€'.repeat(21_846)}"}`, 'a', '1: a is longer than 65536 bytes'],
  [Buffer.from('{"a":"\xff"}', 'latin1'), 'a', '1: a is not UTF-8'],
  ['[{"a":"x"},\n{"a":tru}]', 'a', '2: is not JSON', 'json'],
])('a bad row: %s with %s', async (input, fields, problem, format = 'ndjson') => {
  expect((await edited(input, { format, fields })).problems).toEqual([problem]);
});

const ROW = JSON.stringify({
  customer: { emails: ['a@x.org', 'b@x.org'], 'full name': 'Ann', 'o\'dd, [n]ame"': 'Odd' },
  $: 'Dollar',
  orders: [{ to: 'One' }, { to: 'Two' }, { from: 'Three' }, null],
});

test.each([
  ['customer.emails[*]', ['a@x.org', 'b@x.org']],
  ['customer.emails[1]', ['b@x.org']],
  ['customer["full name"]', ['Ann']],
  ['customer.full name', ['Ann']],
  [String.raw`customer["o'dd, [n]ame\""]`, ['Odd']],
  ['orders[*].to', ['One', 'Two']],
  ['orders[*].to, orders[*].from ,customer.full name', ['Ann', 'One', 'Two', 'Three']],
  ['$.customer.full name, $.orders[1].to', ['Ann', 'Two']],
  ['$["customer"].emails[0]?', ['a@x.org']],
  ['$["$"]', ['Dollar']],
  ['nothing.there[*],customer.emails[7],customer.phone', []],
])('the path %s', async (fields, found) => {
  const { cells } = await edited(ROW, { format: 'ndjson', fields });
  expect(cells.map(({ value }) => value)).toEqual(found);
});

const named = (n: number, value: unknown) =>
  Object.fromEntries(Array.from({ length: n }, (_, i) => [`n${i}`, value]));

test.each<[object, number]>([
  [{ a: named(30, 'x'), b: named(30, 'x') }, 50],
  [{ ...named(50, 1), a: 'x' }, 0],
  [{ ...named(49, 1), a: 'x' }, 1],
  [{ a: [...Array(49).fill('x'), { b: 'y' }, { c: 'z' }] }, 2],
])('the paths of a first row are told up to a bound: %#', async (row, found) => {
  const options = { ...DEFAULTS, format: 'ndjson' } as const;
  const { format } = await readBeginning(inputOf(Buffer.of()), options, false);
  format.read(Buffer.from(JSON.stringify(row)), 0, 1, true);
  expect(format.sample).toHaveLength(found);
});

test('the least record of a path has one value, also at index 1,000', () => {
  expect(leastRecord('a.b[2]["c d"]', 'x')).toEqual({ a: { b: [null, null, { 'c d': 'x' }] } });
  for (const path of ['a', 'a[*]', 'a[0].b[*].c', 'a[1000]'])
    expect(valueIn(leastRecord(path, 'x'), path)).toBe('x');
  expect(() => leastRecord('a[1001]', 'x')).toThrow('a[1001] has an index over 1000: name');
  for (const other of [null, undefined, { a: null }])
    expect(valueIn(other, 'a[*].b')).toBe(undefined);
});

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

test('paths lead to the same strings as in what JSON.parse gives, and to no others', async () => {
  await fc.assert(
    fc.asyncProperty(fc.dictionary(fc.string(), fc.jsonValue()), async (json) => {
      const found = strings(JSON.parse(JSON.stringify(json)));
      if (found.length === 0) return;
      const text = JSON.stringify(json, null, '\t').replaceAll('\n', ' ');
      const fields = found.map(([path]) => path).join(',');
      const replaced = await edited(text, { format: 'ndjson', fields }, (value) => `<${value}>`);
      expect([replaced.problems, replaced.cells.length]).toEqual([[], found.length]);
      const wanted = new Map(found.map(([path, value]) => [path, `<${value}>`]));
      expect(new Map(strings(JSON.parse(replaced.output.toString())))).toEqual(wanted);
    }),
  );
});

test('what no path leads to is copied byte for byte: spaces, numbers, escapes, invalid UTF-8', async () => {
  const input = Buffer.concat([
    Buffer.from('\ufeff{ "n" : 12345678901234567890.10e+5 ,"e":"\\u0041\\/", "a" :\t"x" }\r\n\n'),
    Buffer.from(' \t\n{"b":[{"a":"no"},"]}\\\\"],"a":"y\\"\\\\","\xff":"\xc3"}', 'latin1'),
  ]);
  const found = await edited(input, { format: 'ndjson', fields: 'a' }, () => 'T');
  expect([found.problems, found.rows]).toEqual([[], 2]);
  expect(found.cells.map(({ value }) => value)).toEqual(['x', 'y"\\']);
  const wanted = input.toString('latin1').replace('"x"', '"T"').replace('"y\\"\\\\"', '"T"');
  expect(found.output.toString('latin1')).toBe(wanted);
});
