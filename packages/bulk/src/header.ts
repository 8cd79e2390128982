import {
  addPath,
  listed,
  newTree,
  PathError,
  type PathNode,
  parsePaths,
  skipSpace,
  suggested,
} from '#paths';
import { BulkError } from './bulk-error.ts';
import { type Column, CsvScanner, csvFormat } from './csv.ts';
import type { Input } from './input.ts';
import { JsonFormat } from './json.ts';
import { NdjsonFormat } from './ndjson.ts';
import {
  columnOf,
  type Fields,
  isPolicy,
  NoFieldOfPolicy,
  type PolicyFields,
  treeOf,
} from './policy-paths.ts';
import { lineEndsIn, MAX_ROW_BYTES, type RowFormat } from './row.ts';

export interface FormatOptions {
  /** Quotes have a meaning in csv, not in tsv. */
  readonly format: 'csv' | 'tsv' | 'ndjson' | 'json';
  readonly fields: Fields;
  /** One ASCII character; undefined: tab for tsv, guessed from the first line for csv. */
  readonly delimiter: string | undefined;
  readonly hasHeader: boolean;
  /** Whether empty strings of JSON are cells; otherwise they stay as they are. */
  readonly keepsBlank?: boolean;
}

/** The bytes before the rows, and the format of the rows. */
export interface Beginning {
  readonly format: RowFormat;
  /** Byte order mark and header line or opening bracket, which are copied unchanged. */
  readonly bytes: Buffer;
  readonly lineEnds: number;
}

const BOM = Buffer.from([0xef, 0xbb, 0xbf]);
const OPEN_ARRAY = 0x5b;
const CSV_DELIMITERS = [',', ';', '\t', '|'];

/**
 * Reads the bytes before the rows. The next read of the input returns the first row.
 * @param hasRows whether an earlier run has read rows
 * @throws BulkError
 */
export async function readBeginning(
  input: Input,
  options: FormatOptions,
  hasRows: boolean,
): Promise<Beginning> {
  const start = await readTo(input, Buffer.alloc(0), BOM.length);
  refuseUtf16(input, start);
  const bomBytes = start.subarray(0, BOM.length).equals(BOM) ? BOM.length : 0;
  if (options.format === 'ndjson') {
    const format = new NdjsonFormat(pathsOf(options.fields, false), options.keepsBlank);
    input.unread(start.subarray(bomBytes));
    return { format, bytes: start.subarray(0, bomBytes), lineEnds: 0 };
  }
  if (options.format === 'json') return readJson(input, start, bomBytes, options, hasRows);
  const fields = typeof options.fields === 'string' ? parseList(options.fields) : options.fields;
  const { line, bytes } = await readFirstLine(input, start, bomBytes, fields, options);
  if (options.hasHeader && bytes.length === bomBytes) throw new BulkError(`${input.name} is empty`);
  const columns = isPolicy(fields)
    ? findPolicyColumns(input, line, fields)
    : findColumns(input, line, fields, options.hasHeader);
  const counted = isPolicy(fields) ? columns.map(({ field }) => field) : [];
  const end = options.hasHeader ? line.end : bomBytes;
  input.unread(bytes.subarray(end));
  return {
    format: csvFormat(line.scanner, line.cells.length, columns, counted),
    bytes: bytes.subarray(0, end),
    lineEnds: options.hasHeader ? line.scanner.lineEnds : 0,
  };
}

function pathsOf(fields: Fields, isArray: boolean): PathNode {
  try {
    if (typeof fields === 'string') return parsePaths(fields, isArray);
    if (isPolicy(fields)) return treeOf(fields);
    const tree = newTree();
    for (const path of fields) addPath(tree, path, 'A field option');
    return tree;
  } catch (error) {
    throw error instanceof PathError ? new BulkError(error.message) : error;
  }
}

/** An opening bracket comes before rows that are the items of an array. */
async function readJson(
  input: Input,
  start: Buffer,
  from: number,
  { fields, keepsBlank }: FormatOptions,
  hasRows: boolean,
): Promise<Beginning> {
  let bytes = start;
  const first = () => skipSpace(bytes.toString('latin1'), from);
  for (let length = -1; first() === bytes.length && bytes.length > length; ) {
    length = bytes.length;
    bytes = await readTo(input, bytes, length + 1);
  }
  const at = first();
  const isArray = bytes[at] === OPEN_ARRAY;
  const end = isArray ? at + 1 : from;
  // An array that ends here would have no row to complain about.
  if (isArray && end === bytes.length) bytes = await readTo(input, bytes, end + 1);
  if (isArray && end === bytes.length)
    throw new BulkError(`${input.name} ends in the middle of its JSON`);
  input.unread(bytes.subarray(end));
  const format = new JsonFormat(pathsOf(fields, isArray), input.name, isArray, hasRows, keepsBlank);
  return { format, bytes: bytes.subarray(0, end), lineEnds: lineEndsIn(bytes, 0, end) };
}

/** The first record, scanned with one delimiter. */
interface FirstLine {
  readonly scanner: CsvScanner;
  /** -1: more bytes are needed. */
  readonly end: number;
  readonly cells: readonly string[];
}

function scanLine(
  bytes: Buffer,
  start: number,
  isEnd: boolean,
  delimiter: string,
  hasQuotes: boolean,
): FirstLine {
  const scanner = new CsvScanner(delimiter.charCodeAt(0), hasQuotes);
  const end = scanner.scan(bytes, start, isEnd);
  const cells = Array.from({ length: scanner.cells }, (_, i) => {
    const text = bytes.toString('utf8', scanner.starts[i], scanner.ends[i]);
    const isQuoted = hasQuotes && text.startsWith('"');
    return isQuoted ? text.slice(1, -1).replaceAll('""', '"') : text;
  });
  return { scanner, end, cells };
}

/** Prefers the delimiter that finds all fields; otherwise the delimiter that finds most cells. */
async function readFirstLine(
  input: Input,
  start: Buffer,
  from: number,
  fields: readonly string[] | PolicyFields,
  { format, delimiter, hasHeader }: FormatOptions,
): Promise<{ line: FirstLine; bytes: Buffer }> {
  const delimiters = delimiter ? [delimiter] : format === 'tsv' ? ['\t'] : CSV_DELIMITERS;
  let bytes = start;
  for (let isEnd = false; ; ) {
    const lines = delimiters.map((one) => scanLine(bytes, from, isEnd, one, format === 'csv'));
    if (lines.every((line) => line.end !== -1)) {
      const byCells = lines.toSorted((a, b) => b.cells.length - a.cells.length);
      const fits = ({ cells }: FirstLine) =>
        isPolicy(fields)
          ? fields.paths.some((path) => columnOf(path, cells) !== undefined)
          : fields.every((name) => cells.includes(name));
      const line = (hasHeader && lines.find(fits)) || byCells[0]!;
      if (line.scanner.problem !== undefined)
        throw new BulkError(`The quotes in the first line of ${input.name} do not match`);
      return { line, bytes };
    }
    if (bytes.length > MAX_ROW_BYTES)
      throw new BulkError(
        `The first line of ${input.name} is longer than ${MAX_ROW_BYTES} bytes: set --delimiter`,
      );
    const more = await readTo(input, bytes, 2 * bytes.length);
    isEnd = more.length === bytes.length;
    bytes = more;
  }
}

function findColumns(
  input: Input,
  { cells }: FirstLine,
  names: readonly string[],
  hasHeader: boolean,
): Column[] {
  return names.map((field) => {
    const named = cells.flatMap((cell, index) => (cell === field ? [index] : []));
    if (!hasHeader) return { field, index: columnNumber(input, field, cells) };
    if (named.length > 1)
      throw new BulkError(
        `The header of ${input.name} has the field ${field} ${named.length} times`,
      );
    if (named.length === 0) {
      const remedy = isEmpty(cells)
        ? 'its first line is empty'
        : `its fields are: ${listed(cells)}`;
      throw new BulkError(`${input.name} has no field ${suggested(field, cells)}; ${remedy}`);
    }
    return { field, index: named[0]! };
  });
}

/** The columns that the policy names. */
function findPolicyColumns(input: Input, line: FirstLine, fields: PolicyFields): Column[] {
  const columns = new Map<number, Column>();
  for (const field of fields.paths) {
    const name = columnOf(field, line.cells);
    if (name === undefined) continue;
    const [{ index }] = findColumns(input, line, [name], true) as [Column];
    if (!columns.has(index)) columns.set(index, { field, index });
  }
  if (columns.size === 0) throw new NoFieldOfPolicy(input.name, line.cells, fields);
  return [...columns.values()];
}

function columnNumber(input: Input, field: string, cells: readonly string[]): number {
  if (!/^[1-9]\d{0,6}$/.test(field))
    throw new BulkError(`--fields: with --no-header, write the numbers of columns, not ${field}`);
  // An empty file does not tell how many columns there are.
  if (Number(field) > cells.length && !isEmpty(cells))
    throw new BulkError(
      `${input.name} has no column ${field}: its first row has ${cells.length} cells`,
    );
  return Number(field) - 1;
}

function isEmpty(cells: readonly string[]): boolean {
  return cells.length === 1 && cells[0] === '';
}

/** A name, or a quoted one, of which spaces at the ends and commas are a part. */
const NAME = /\s*(?:"((?:[^"]|"")*)"|([^,"\s](?:[^,]*[^,\s])?))\s*(,|$)/y;

/** Names with commas between them. A name with a comma or quote is quoted as in CSV. */
function parseList(fields: string): readonly string[] {
  const names: string[] = [];
  NAME.lastIndex = 0;
  for (let end: string | undefined = ','; end === ','; ) {
    const found = NAME.exec(fields);
    if (found === null)
      throw new BulkError('--fields: write names with commas between them, such as email,phone');
    names.push(found[1]?.replaceAll('""', '"') ?? found[2]!);
    end = found[3];
  }
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw new BulkError(`--fields names ${twice} twice`);
  return names;
}

/** Reads until there are `wanted` bytes, or the input ends. */
async function readTo(input: Input, bytes: Buffer, wanted: number): Promise<Buffer> {
  const pieces = [bytes];
  let { length } = bytes;
  while (length < wanted) {
    const next = await input.read();
    if (next === undefined) break;
    pieces.push(next);
    length += next.length;
  }
  return pieces.length === 1 ? bytes : Buffer.concat(pieces);
}

/** In UTF-16, one byte of each Latin letter is 0. */
function refuseUtf16(input: Input, [first, second]: Buffer): void {
  const hasMark = (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);
  if (hasMark || (first === 0) !== (second === 0)) {
    throw new BulkError(
      `${input.name} seems to be UTF-16: convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8`,
    );
  }
}
