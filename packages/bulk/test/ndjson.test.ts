import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { edited } from './edited.ts';

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

describe('paths', () => {
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

describe('what no path leads to is copied byte for byte', () => {
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
    for (let pieceBytes = 1; pieceBytes < input.length; pieceBytes++) {
      const options = { format: 'ndjson', fields: 'a' } as const;
      const { output } = await edited(input, options, (value) => value, pieceBytes);
      expect(output.toString()).toBe(input);
    }
  });
});

describe('rows', () => {
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
