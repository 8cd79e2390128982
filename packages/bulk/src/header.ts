import {
  addPath,
  listed,
  newTree,
  PathError,
  type PathNode,
  parsePaths,
  skipSpace,
  stepsOf,
  suggested,
} from '#paths';
import { type Column, CsvScanner, csvFormat } from './csv.ts';
import type { Input } from './input.ts';
import { JsonFormat } from './json.ts';
import { BulkError, lineEndsIn, MAX_ROW_BYTES } from './row.ts';

/** The fields of a policy. A file has some of them. */
export interface PolicyFields {
  /** Identifies the policy, for messages and for `--resume`. */
  readonly policy: string;
  readonly paths: readonly string[];
}

/**
 * The fields of rows: the text of `--fields`; names of columns or paths, each by itself; or the
 * fields of a policy.
 */
type Fields = string | readonly string[] | PolicyFields;

export function isPolicy(fields: Fields): fields is PolicyFields {
  return typeof fields === 'object' && 'policy' in fields;
}

/** No row has a field, so that its values would be copied in clear. */
export class NoFieldError extends BulkError {}

/** @param sample fields of the file */
export function noFieldOfPolicy(
  name: string,
  sample: readonly string[],
  { policy, paths }: PolicyFields,
): NoFieldError {
  return new NoFieldError(
    `${name} has no field of the policy (${policy}): the policy has ${listed(paths)}; the file has ${listed(sample)}. Rename its fields, or name them with --fields, which makes all of them of the kind text`,
  );
}

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

/** The format of the rows, and the bytes before them: byte order mark, header or bracket. */
export type Beginning = Awaited<ReturnType<typeof readBeginning>>;

const BOM = Buffer.from([0xef, 0xbb, 0xbf]);
const OPEN_ARRAY = 0x5b;
const CSV_DELIMITERS = [',', ';', '\t', '|'];

/**
 * Reads the bytes before the rows. The next read of the input returns the first row.
 * @param hasRows whether an earlier run has read rows
 * @throws BulkError
 */
export async function readBeginning(input: Input, options: FormatOptions, hasRows: boolean) {
  const start = await peek(input, BOM.length);
  const [first, second] = start;
  const hasMark = (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);
  // In UTF-16, one byte of each Latin letter is 0.
  if (hasMark || (first === 0) !== (second === 0))
    throw new BulkError(
      `${input.name} seems to be UTF-16: convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8`,
    );
  const from = start.subarray(0, BOM.length).equals(BOM) ? BOM.length : 0;
  const isJson = options.format === 'ndjson' || options.format === 'json';
  const { end, ...beginning } = isJson
    ? await readJson(input, start, from, options, hasRows)
    : await readHeader(input, from, options);
  const bytes = (await input.read()) ?? Buffer.alloc(0);
  input.unread(bytes.subarray(end));
  return { ...beginning, bytes: bytes.subarray(0, end) };
}

/** An opening bracket comes before rows that are the items of an array. */
async function readJson(
  input: Input,
  start: Buffer,
  from: number,
  { format, fields, keepsBlank = false }: FormatOptions,
  hasRows: boolean,
) {
  let bytes = start;
  const first = () => skipSpace(bytes.toString('latin1'), from);
  const isLines = format === 'ndjson';
  for (let length = -1; !isLines && first() === bytes.length && bytes.length > length; ) {
    length = bytes.length;
    bytes = await peek(input, length + 1);
  }
  const isArray = !isLines && bytes[first()] === OPEN_ARRAY;
  const end = isArray ? first() + 1 : from;
  // An array that ends here would have no row to complain about.
  if (isArray && (await peek(input, end + 1)).length === end)
    throw new BulkError(`${input.name} ends in the middle of its JSON`);
  const rows = isLines ? 'lines' : isArray ? 'array' : 'whole';
  const root = pathsOf(fields, isArray);
  const json = new JsonFormat({ root, rows, name: input.name, hasRows, keepsBlank });
  return { end, lineEnds: lineEndsIn(bytes, 0, end), format: json };
}

async function readHeader(input: Input, from: number, options: FormatOptions) {
  const { hasHeader } = options;
  const fields = typeof options.fields === 'string' ? parseList(options.fields) : options.fields;
  const { scanner, end, cells } = await readFirstLine(input, from, fields, options);
  if (hasHeader && end === from) throw new BulkError(`${input.name} is empty`);
  const columns = findColumns(input, cells, fields, hasHeader);
  const counted = isPolicy(fields) ? columns.map(({ field }) => field) : [];
  const format = csvFormat(scanner, cells.length, columns, counted);
  return hasHeader
    ? { end, lineEnds: scanner.lineEnds, format }
    : { end: from, lineEnds: 0, format };
}

function pathsOf(fields: Fields, isArray: boolean): PathNode {
  try {
    if (typeof fields === 'string') return parsePaths(fields, isArray);
    const tree = newTree();
    if (!isPolicy(fields)) for (const path of fields) addPath(tree, path, 'A field option');
    // No row need have any field of a policy.
    else for (const path of fields.paths) addPath(tree, path, '--policy').isOptional = true;
    return tree;
  } catch (error) {
    throw error instanceof PathError ? new BulkError(error.message) : error;
  }
}

/** Prefers the delimiter that finds all fields; otherwise the delimiter that finds most cells. */
async function readFirstLine(
  input: Input,
  from: number,
  fields: readonly string[] | PolicyFields,
  { format, delimiter, hasHeader }: FormatOptions,
) {
  const delimiters = delimiter ? [delimiter] : format === 'tsv' ? ['\t'] : CSV_DELIMITERS;
  for (let wanted = BOM.length, length = -1; ; wanted = 2 * length) {
    const bytes = await peek(input, wanted);
    const isEnd = bytes.length === length;
    const lines = delimiters.map((one) => scanLine(bytes, from, isEnd, one, format === 'csv'));
    if (lines.every(({ end }) => end !== -1)) {
      const byCells = lines.toSorted((a, b) => b.cells.length - a.cells.length);
      const fits = ({ cells }: (typeof lines)[number]) =>
        isPolicy(fields)
          ? fields.paths.some((path) => columnOf(path, cells) !== undefined)
          : fields.every((name) => cells.includes(name));
      const line = (hasHeader && lines.find(fits)) || byCells[0]!;
      if (line.scanner.problem === undefined) return line;
      throw new BulkError(`The quotes in the first line of ${input.name} do not match`);
    }
    length = bytes.length;
    if (length > MAX_ROW_BYTES)
      throw new BulkError(
        `The first line of ${input.name} is longer than ${MAX_ROW_BYTES} bytes: set --delimiter`,
      );
  }
}

function scanLine(
  bytes: Buffer,
  start: number,
  isEnd: boolean,
  delimiter: string,
  hasQuotes: boolean,
) {
  const scanner = new CsvScanner(delimiter.charCodeAt(0), hasQuotes);
  const end = scanner.scan(bytes, start, isEnd);
  const cells = Array.from({ length: scanner.cells }, (_, i) => {
    const text = bytes.toString('utf8', scanner.starts[i], scanner.ends[i]);
    const isQuoted = hasQuotes && text.startsWith('"');
    return isQuoted ? text.slice(1, -1).replaceAll('""', '"') : text;
  });
  return { scanner, end, cells };
}

/** The columns that the fields name; of a policy, those that the file has. */
function findColumns(
  input: Input,
  cells: readonly string[],
  fields: readonly string[] | PolicyFields,
  hasHeader: boolean,
): Column[] {
  const indexOf = hasHeader ? columnNamed : columnNumbered;
  if (!isPolicy(fields))
    return fields.map((field) => ({ field, index: indexOf(input, field, cells) }));
  const columns = new Map<number, Column>();
  for (const field of fields.paths) {
    const name = columnOf(field, cells);
    if (name === undefined) continue;
    const index = columnNamed(input, name, cells);
    if (!columns.has(index)) columns.set(index, { field, index });
  }
  if (columns.size === 0) throw noFieldOfPolicy(input.name, cells, fields);
  return [...columns.values()];
}

function columnNamed({ name }: Input, field: string, cells: readonly string[]): number {
  const times = cells.filter((cell) => cell === field).length;
  if (times === 1) return cells.indexOf(field);
  if (times > 1) throw new BulkError(`The header of ${name} has the field ${field} ${times} times`);
  const fields = isEmpty(cells) ? 'its first line is empty' : `its fields are: ${listed(cells)}`;
  throw new BulkError(`${name} has no field ${suggested(field, cells)}; ${fields}`);
}

/** The column of a CSV file that a path stands for: one name, or the path itself. */
function columnOf(path: string, columns: readonly string[]): string | undefined {
  const [name, ...rest] = stepsOf(path);
  const column = typeof name === 'string' && rest.length === 0 ? name : path;
  return columns.includes(column) ? column : undefined;
}

function columnNumbered({ name }: Input, field: string, cells: readonly string[]): number {
  if (!/^[1-9]\d{0,6}$/.test(field))
    throw new BulkError(`--fields: with --no-header, write the numbers of columns, not ${field}`);
  // An empty file does not tell how many columns there are.
  if (Number(field) > cells.length && !isEmpty(cells))
    throw new BulkError(`${name} has no column ${field}: its first row has ${cells.length} cells`);
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

/** So many bytes, or all until the input ends. The next read returns them again. */
async function peek(input: Input, wanted: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for (let length = 0; length < wanted; length += pieces.at(-1)!.length) {
    const next = await input.read();
    if (next === undefined) break;
    pieces.push(next);
  }
  const bytes = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
  input.unread(bytes);
  return bytes;
}

/** A least record has null before its item. */
const MAX_INDEX = 1_000;
type Json = string | null | Json[] | { readonly [name: string]: Json };

/**
 * A record of one value at a path of a policy: with it, a service gives the value the kind of its
 * path, and gets nothing else of a row.
 * @throws BulkError for a path with a large index
 */
export function leastRecord(path: string, value: string): { readonly [name: string]: Json } {
  const json = stepsOf(path).reduceRight<Json>((inner, step) => {
    if (typeof step === 'string') return { [step]: inner };
    // An item stands for every item.
    const index = step ?? 0;
    if (index > MAX_INDEX)
      throw new BulkError(`${path} has an index over ${MAX_INDEX}: name the fields with --fields`);
    return [...new Array<null>(index).fill(null), inner];
  }, value);
  return json as { readonly [name: string]: Json };
}

/** The value at the path of another record, such as a response. */
export function valueIn(record: unknown, path: string): unknown {
  return stepsOf(path).reduce<unknown>(
    (found, step) => (found as Record<string | number, unknown> | null | undefined)?.[step ?? 0],
    record,
  );
}
