import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CsvScanner } from '../src/csv.ts';
import type { FormatOptions } from '../src/header.ts';
import { edited } from './edited.ts';

const TSV = { format: 'tsv', fields: 'a' } as const;
/** Bytes of a row. */
const LONGEST = 16 * 1024 * 1024;
const NUMBERED = { fields: '2', hasHeader: false };
const policyOf = (...paths: string[]) => ({ fields: { policy: 'version 1', paths } });

const bytes = fc.uint8Array({ maxLength: 200 }).map((array) => Buffer.from(array));
/** The bytes with a meaning in CSV, and a letter. */
const structure = fc
  .array(fc.constantFrom('"', ',', '\r', '\n', 'a', 'é', ' ', '""', '\r\n', '\0'), {
    maxLength: 60,
  })
  .map((parts) => Buffer.from(parts.join('')));

/** A reference by one expression; undefined: a quote never closes. */
function reference(text: string, delimiter: string): string[][] | undefined {
  const cell = new RegExp(
    `("(?:[^"]|"")*"(?!"))?([^${delimiter}\\r\\n]*)(${delimiter}|\\r\\n|\\r|\\n|$)`,
    'y',
  );
  const records: string[][] = [];
  for (let end = '\n'; cell.lastIndex < text.length || end === delimiter; ) {
    if (end !== delimiter) records.push([]);
    const [, quoted, rest, next] = cell.exec(text)!;
    if (quoted === undefined && rest!.startsWith('"')) return undefined;
    records.at(-1)!.push((quoted?.slice(1, -1).replaceAll('""', '"') ?? '') + rest);
    end = next!;
  }
  return records;
}

/** The records that the scanner finds; undefined: a quote never closes. */
function scanned(input: Buffer, delimiter: string): string[][] | undefined {
  const scanner = new CsvScanner(delimiter.charCodeAt(0), true);
  const records: string[][] = [];
  for (let at = 0; at < input.length; ) {
    at = scanner.scan(input, at, true);
    if (scanner.problem === 'unclosed_quote') return undefined;
    const { cells, starts, ends } = scanner;
    records.push(
      Array.from({ length: cells }, (_, i) => {
        const cell = input.toString('latin1', starts[i], ends[i]);
        const quoted = /^"((?:[^"]|"")*)"(.*)$/s.exec(cell);
        return quoted ? quoted[1]!.replaceAll('""', '"') + quoted[2] : cell;
      }),
    );
  }
  return records;
}

describe('the scanner', () => {
  test.each([',', ';', '\t'])('finds the cells of the rules, with %j', (delimiter) => {
    const some = structure.map((text) => Buffer.from(text.toString().replaceAll(',', delimiter)));
    fc.assert(
      fc.property(fc.oneof(some, bytes), (input) => {
        const text = input.toString('latin1');
        expect(scanned(input, delimiter)).toEqual(reference(text, delimiter));
      }),
      { numRuns: 2_000 },
    );
  });

  test('never takes a record for complete whose bytes could go on', () => {
    fc.assert(
      fc.property(structure, structure, (first, second) => {
        const scanner = new CsvScanner(0x2c, true);
        const end = scanner.scan(first, 0, false);
        if (end === -1) return;
        const cells = scanner.cells;
        expect(scanner.scan(Buffer.concat([first, second]), 0, true)).toBe(end);
        expect(scanner.cells).toBe(cells);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('what is not replaced is copied byte for byte', () => {
  const rows = fc.array(
    fc.tuple(
      fc.constantFrom('"', '""', 'a', 'é', ' ', 'x y'),
      fc.uint8Array({ maxLength: 20 }),
      fc.constantFrom('\n', '\r\n', '\r', '\n\n'),
    ),
    { maxLength: 30 },
  );

  test('whatever the bytes are and however they are cut, when values stay as they are', async () => {
    await fc.assert(
      fc.asyncProperty(rows, fc.integer({ min: 1, max: 64 }), async (parts, pieceBytes) => {
        const lines = parts.map(([text, other, end]) => {
          const cell = Buffer.from(other).filter(
            (byte) => ![0x22, 0x2c, 0x0a, 0x0d].includes(byte),
          );
          const quoted = `"${text.replaceAll('"', '""')}",`;
          return Buffer.concat([Buffer.from(quoted), cell, Buffer.from(end)]);
        });
        const input = Buffer.concat([Buffer.from('name,other\r\n'), ...lines]);
        const { output, problems } = await edited(input, { fields: 'name' }, undefined, pieceBytes);
        expect(problems).toEqual([]);
        expect(output.equals(input)).toBe(true);
      }),
    );
  });

  test('invalid UTF-8, NUL, spaces, quotes, mark and line ends beside a replaced cell', async () => {
    const other = Buffer.from([0xff, 0x00, 0x20, 0xc3]);
    const input = Buffer.concat([
      Buffer.from('\ufeffemail,"other ",n\r\nann@x.org,'),
      other,
      Buffer.from(', 007 \rbob@x.org,"a\r\n""b"",",\n\n"c""@x.org",,\n'),
    ]);
    const { output, cells, rows } = await edited(input, { fields: 'email' }, () => 'T');
    expect(cells.map(({ value }) => value)).toEqual(['ann@x.org', 'bob@x.org', 'c"@x.org']);
    expect(rows).toBe(3);
    const wanted = input.toString('latin1').replaceAll(/(ann|bob|c"")@x.org/g, 'T');
    expect(output.toString('latin1')).toBe(wanted);
  });
});

/** As long as a value may be. */
const X = 'x'.repeat(65_536);

const csv = (text: string | Buffer, fields = 'a', replace?: (value: string) => string) =>
  edited(text, { fields }, replace);

test.each<[string, string, string, string, Partial<FormatOptions>?]>([
  ['plain', 'a,b\nx,y\n', 'T', 'a,b\nT,y\n'],
  ['quoted before', 'a,b\n"x",y\n', 'T', 'a,b\n"T",y\n'],
  ['with a delimiter', 'a,b\nx,y\n', 'T,T', 'a,b\n"T,T",y\n'],
  ['with a quote', 'a,b\nx,y\n', 'T"', 'a,b\n"T""",y\n'],
  ['with a line end', 'a,b\nx,y\n', 'T\nT', 'a,b\n"T\nT",y\n'],
  ['with a comma that delimits nothing', 'a;b\nx;y\n', 'T,T', 'a;b\nT,T;y\n'],
  ['at the end, without a line end', 'b,a\ny,x', 'T', 'b,a\ny,T'],
  ['of a value with a quote inside', 'a,b\nx"y,z\n', 'T', 'a,b\nT,z\n'],
  ['of spaces, beside blank cells', 'a,b\n,1\n"",2\n  ,3\n', 'T', 'a,b\n,1\n"",2\nT,3\n'],
  ['in no row: a header alone', '\ufeffa,b\r\n', 'T', '\ufeffa,b\r\n'],
  ['in no row: a header without a line end', 'a,b', 'T', 'a,b'],
  ['by the delimiter that is given', 'a:b\n1:2\n', 'T', 'a:b\nT:2\n', { delimiter: ':' }],
  ['of TSV, where a quote is a character', 'a\tb\n"x\ty"\n', 'T', 'a\tb\nT\ty"\n', TSV],
  ['by number, in every line', '\ufeff1;x\n2;y\n', 'T', '\ufeff1;T\n2;T\n', NUMBERED],
  ['by number, after a mark', '\ufeff1;x\n', 'T', '\ufeffT;x\n', { ...NUMBERED, fields: '1' }],
  ['by number, in no line', '', 'T', '', NUMBERED],
  ['by number, whatever the cells are', '2,x;y;z\n', 'T', '2,x;T;z\n', NUMBERED],
  ['of TSV with quotes', '"a"\tb\nx\ty\n', 'T', '"a"\tb\nT\ty\n', { ...TSV, fields: ['"a"'] }],
  ['of a policy', 'x,y,z;a\n1;2\n', 'T', 'x,y,z;a\n1;T\n', policyOf('none', 'a')],
  ['of no first step of a path', 'a,c\n1,2\n', 'T', 'a,c\n1,T\n', policyOf('a.b', 'c')],
])('a changed cell %s', async (_, input, replacement, output, options = {}) => {
  const result = await edited(input, { fields: 'a', ...options }, () => replacement);
  expect([result.output.toString(), result.problems]).toEqual([output, []]);
});

test.each<[string, string | Buffer, string, Partial<FormatOptions>?]>([
  ['too few cells', 'a,b\nx,y\nx\n', '3: has 1 cell instead of 2'],
  ['too many cells', 'a,b\n1,2,3\n', '2: has 3 cells instead of 2'],
  ['text after a quote', 'a,b\n"x"y,z\n', '2: has text after a closing quote'],
  ['a line after line ends', 'a,b\n"1\r2\r\n3\n4",y\nx\n', '6: has 1 cell instead of 2'],
  ['without a header', '1;2\n3\n', '2: has 1 cell instead of 2', NUMBERED],
  ['a long value', `a,b\n${X},y\n${X}x,y\n`, '3: a is longer than 65536 bytes'],
  ['invalid UTF-8', Buffer.from('a,b\n\xef\xbf\xbd,\n\xff,y\n', 'latin1'), '3: a is not UTF-8'],
])('a bad row: %s', async (_, input, problem, options = {}) => {
  expect((await edited(input, { fields: 'a', ...options })).problems).toEqual([problem]);
});

test('a value that no cell of TSV can hold makes a bad row', async () => {
  const { problems } = await edited('a\tb\nx\ty\n', TSV, () => 'T\tT');
  expect(problems).toEqual(['2: a would contain a tab or line end, which TSV cannot hold']);
});

test.each<[string, string | Buffer, string, Partial<FormatOptions>?]>([
  ['no field', 'b,c\n1,2\n', 'the file has no field a; its fields are: b, c'],
  ['a field twice', 'a,b,a\n1,2,3\n', 'The header of the file has the field a 2 times'],
  ['an option twice', 'a,b\n', '--fields names a twice', { fields: 'a,b,a' }],
  ['a comma too many', 'a,b\n', '--fields: write names with commas between', { fields: 'a,' }],
  ['half a quote', 'a,b\n', '--fields: write names with commas between them', { fields: '"a' }],
  ['nothing', '', 'the file is empty'],
  ['a mark', '\ufeff', 'the file is empty'],
  ['a long line', Buffer.alloc(LONGEST, 'x'), 'the file has no field a; its fields are: xxx'],
  ['a longer line', Buffer.alloc(LONGEST + 1, 'x'), 'The first line of the file is longer than'],
  ['an empty name', ',b\n', 'its fields are: , b'],
  ['no mark', Buffer.of(0xff, 0x61), 'the file has no field a'],
  ['no mark of the other order', Buffer.of(0xfe, 0x61), 'the file has no field a'],
  ['an empty line', '\nx\n', 'the file has no field a; its first line is empty'],
  ['a quote that opens', '"a,b\n', 'The quotes in the first line of the file do not match'],
  ['what controls a terminal', 'b\u001b[2J\nx\n', 'its fields are: b?[2J'],
  ['UTF-16', Buffer.from('\ufeffa,b\n', 'utf16le'), 'UTF-16'],
  ['UTF-16 of the other order', Buffer.from('\ufffea,b\n', 'utf16le'), 'UTF-16'],
  ['UTF-16 without a mark', Buffer.from('a,b\n', 'utf16le'), 'UTF-16'],
  ['UTF-16 of the other order without a mark', '\0a\0,', 'UTF-16'],
  ['no such number', '1,2\n', 'its first row has 2', { ...NUMBERED, fields: '3' }],
  ['a name for a number', '1,2\n', 'numbers of columns', { ...NUMBERED, fields: 'a' }],
  ['an open quote', 'a\n"q\n"\n"1\n","never\n', 'The quote that opens on line 5 never closes'],
])('the run ends in words: %s', async (_, input, message, options = {}) => {
  await expect(edited(input, { fields: 'a', ...options })).rejects.toThrow(message);
});

test('a row beyond the bound is refused, not gathered, and one at the bound is read', async () => {
  expect((await csv(`a\n${'x,'.padEnd(LONGEST, 'y')}`)).problems).toEqual([
    '2: has 2 cells instead of 1',
  ]);
  const input = Buffer.concat([Buffer.from('a,b\n"'), Buffer.alloc(17 * 1024 * 1024, 'x\n')]);
  await expect(edited(input, { fields: 'a' }, undefined, 1 << 18)).rejects.toThrow(
    'The row that begins on line 2 is longer than 16777216 bytes',
  );
});

test('names with commas, quotes and spaces', async () => {
  const { cells } = await csv('"a, b"," c","d ""e""",f"\n1,2,3,4\n', '"a, b"," c","d ""e""",f"');
  expect(cells.map(({ field, value }) => [field, value])).toEqual([
    ['a, b', '1'],
    [' c', '2'],
    ['d "e"', '3'],
    ['f"', '4'],
  ]);
});

test.each([';', '\t', '|', ','])('the delimiter %j is found by the fields', async (delimiter) => {
  const line = (...cells: string[]) => `${cells.join(delimiter)}\n`;
  const input = line('x,y;1', 'name', 'mail') + line('"1"', 'Ann', 'a@x.org');
  const quoted = delimiter === ',' || delimiter === ';' ? `"x,y;1"${input.slice(5)}` : input;
  const { cells, problems } = await csv(quoted, 'name,mail');
  expect(problems).toEqual([]);
  expect(cells.map(({ value }) => value)).toEqual(['Ann', 'a@x.org']);
});

test('of two paths of a policy for one column, the first counts', async () => {
  const { cells } = await edited('a.b\nx\n', policyOf('["a.b"]', 'a.b'));
  expect(cells.map(({ field }) => field)).toEqual(['["a.b"]']);
});
