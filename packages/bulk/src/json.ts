import {
  INCOMPLETE,
  type JsonType,
  JsonWalk,
  type PathNode,
  skipSpace,
  valueEnd,
  valueNodes,
} from '#paths';
import {
  BulkError,
  type Cell,
  decode,
  lineEndsIn,
  NOT_UTF8,
  NOTHING,
  type Problem,
  type Row,
  type RowFormat,
  valueProblem,
} from './row.ts';

interface JsonOptions {
  readonly root: PathNode;
  /** One text on each line, the items of one array, or the whole file. */
  readonly rows: 'lines' | 'array' | 'whole';
  /** Of the file, for messages. */
  readonly name: string;
  /** Whether rows of the array were read before. */
  readonly hasRows: boolean;
  /** Whether empty strings are cells. */
  readonly keepsBlank: boolean;
}

/**
 * Rows of an NDJSON or JSON file. In an array, a row begins with the comma before its item, and the
 * end of the array is a blank row.
 */
export class JsonFormat implements RowFormat {
  readonly fields: readonly PathNode[];
  readonly end: Buffer | undefined;
  readonly #options: JsonOptions;
  #hasRows: boolean;
  #sample: readonly string[] | undefined;
  #bytes: Buffer | undefined;
  #text = '';

  constructor(options: JsonOptions) {
    this.#options = options;
    this.#hasRows = options.hasRows;
    this.fields = valueNodes(options.root);
    this.end = options.rows === 'array' ? Buffer.from('\n]\n') : undefined;
  }

  /** The paths of strings in the first text. */
  get sample(): readonly string[] {
    return this.#sample ?? [];
  }

  encode(_cell: Cell, value: string): string {
    return JSON.stringify(value);
  }

  read(bytes: Buffer, start: number, line: number, isEnd: boolean): Row | undefined {
    // One character for each byte, so offsets in the text are offsets in the bytes.
    if (bytes !== this.#bytes) this.#text = bytes.toString('latin1');
    this.#bytes = bytes;
    return this.#options.rows === 'array'
      ? this.#readItem(bytes, start, line, isEnd)
      : this.#readText(bytes, start, line, isEnd);
  }

  /** A line, or all bytes. */
  #readText(bytes: Buffer, start: number, line: number, isEnd: boolean): Row | undefined {
    const at = this.#options.rows === 'lines' ? this.#text.indexOf('\n', start) : -1;
    if (at === -1 && !isEnd) return undefined;
    const end = at === -1 ? bytes.length : at + 1;
    const lineEnds = at === -1 ? lineEndsIn(bytes, start, end) : 1;
    const row = { line, lineEnds, start, end };
    const first = skipSpace(this.#text, start);
    if (first >= end) return { ...row, isBlank: true, ...NOTHING };
    return { ...row, isBlank: false, ...this.#find(bytes, first, end) };
  }

  #readItem(bytes: Buffer, start: number, line: number, isEnd: boolean): Row | undefined {
    const text = this.#text;
    const { name } = this.#options;
    const lineAt = (offset: number) => line + lineEndsIn(bytes, start, offset);
    const wrong = (offset: number) =>
      new BulkError(
        `Line ${lineAt(offset)} of ${name} is not JSON: a comma or bracket is wrong there`,
      );
    const first = skipSpace(text, start);
    if (text[first] === ']') {
      const end = skipSpace(text, first + 1);
      if (end < text.length) throw wrong(end);
      const lineEnds = lineEndsIn(bytes, start, end);
      return isEnd ? { line, lineEnds, start, end, isBlank: true, ...NOTHING } : undefined;
    }
    const item = this.#itemAt(first, wrong);
    if (item === undefined && isEnd) throw new BulkError(`${name} ends in the middle of its JSON`);
    if (item === undefined) return undefined;
    const [from, end] = item;
    this.#hasRows = true;
    const lines = { line: lineAt(from), lineEnds: lineEndsIn(bytes, from, end) };
    return { ...lines, start, end, isBlank: false, ...this.#find(bytes, from, end) };
  }

  /** Where an item begins and ends; undefined: the text ends before what follows the item. */
  #itemAt(
    first: number,
    wrong: (offset: number) => BulkError,
  ): [from: number, end: number] | undefined {
    const text = this.#text;
    if (this.#hasRows && first < text.length && text[first] !== ',') throw wrong(first);
    const from = this.#hasRows ? skipSpace(text, first + 1) : first;
    if (from >= text.length) return undefined;
    if (',]}'.includes(text[from]!)) throw wrong(from);
    const end = valueEnd(text, from);
    if (end === INCOMPLETE) return undefined;
    const next = skipSpace(text, end);
    // An array that is cut off never seems complete.
    if (next === text.length) return undefined;
    if (!',]'.includes(text[next]!)) throw wrong(next);
    return [from, end];
  }

  /** @param start offsets of a JSON text in the bytes, without spaces before it */
  #find(bytes: Buffer, start: number, end: number): Pick<Row, 'cells' | 'problem' | 'paths'> {
    try {
      JSON.parse(this.#text.slice(start, end));
    } catch {
      const { rows, name } = this.#options;
      if (rows === 'whole')
        throw new BulkError(
          `${name} is neither one JSON array nor one JSON text; if each line has a text, add --format ndjson`,
        );
      return { ...NOTHING, problem: { field: undefined, reason: 'is not JSON' } };
    }
    this.#sample ??= pathsIn(JSON.parse(bytes.toString('utf8', start, end)));
    const { root, keepsBlank } = this.#options;
    const walk = new Walk(this.#text, bytes, keepsBlank);
    walk.value(start, root);
    return { cells: walk.cells, problem: walk.problem, paths: walk.paths };
  }
}

/** The bytes of rows that nothing comes before: without the comma before the first row. */
export function withoutComma(bytes: Buffer): Buffer {
  const at = skipSpace(bytes.toString('latin1'), 0);
  if (bytes[at] !== 0x2c) return bytes;
  return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)]);
}

/** Finds the strings at the paths. Recursion is as deep as the paths. */
class Walk extends JsonWalk {
  readonly cells: Cell[] = [];
  /** The paths in --fields that lead to anything, also to null or a blank string. */
  readonly paths: string[] = [];
  problem: Problem | undefined;
  readonly #bytes: Buffer;
  readonly #keepsBlank: boolean;

  constructor(text: string, bytes: Buffer, keepsBlank: boolean) {
    super(text);
    this.#bytes = bytes;
    this.#keepsBlank = keepsBlank;
  }

  override value(at: number, node: PathNode): number {
    if (node.isValue) this.#note(node);
    // An empty list has the path, so that it counts as found.
    if (node.every?.isValue && this.text[at] === '[') this.#note(node.every);
    return super.value(at, node);
  }

  protected override inside(_: unknown, at: number, node: PathNode | undefined): number {
    return node === undefined ? valueEnd(this.text, at) : this.value(at, node);
  }

  protected override wrong(at: number, { path, isValue }: PathNode, type: JsonType): number {
    const misfit = isValue ? undefined : 'the path does not fit';
    const reason = {
      'a string': 'is a string, and a field is named inside it',
      'an object': `is an object: ${misfit ?? 'name fields inside it'}`,
      'an array': `is an array: ${misfit ?? `write ${path}[*] for all its items`}`,
      'a number': 'is a number, not a string',
      'a boolean': 'is a boolean, not a string',
    }[type];
    this.problem ??= { field: path || undefined, reason };
    return valueEnd(this.text, at);
  }

  protected override string(start: number, end: number, { path }: PathNode): void {
    const value = this.read(start, end);
    if (value === '' && !this.#keepsBlank) return;
    const reason = value === undefined ? NOT_UTF8 : valueProblem(value);
    if (reason !== undefined) this.problem ??= { field: path, reason };
    this.cells.push({ field: path, start, end, value: value ?? '', isQuoted: true });
  }

  /** undefined: the bytes are not UTF-8. */
  protected override raw(start: number, end: number): string | undefined {
    return decode(this.#bytes, start, end);
  }

  #note({ path }: PathNode): void {
    if (!this.paths.includes(path)) this.paths.push(path);
  }
}

/** Other names can be values: a map from e-mail addresses, for example. */
const NAME = /^[A-Za-z_][\w -]{0,40}$/;
const MAX_PATHS = 50;
const MAX_DEPTH = 16;

/** The paths of the strings in a row, as --fields takes them. Leaves out unusual names. */
function pathsIn(json: unknown): string[] {
  return [...new Set(paths(json, '', 0))].slice(0, MAX_PATHS);
}

function paths(json: unknown, path: string, depth: number): string[] {
  if (typeof json === 'string') return [path];
  if (depth === MAX_DEPTH || typeof json !== 'object' || json === null) return [];
  if (Array.isArray(json))
    return json.slice(0, MAX_PATHS).flatMap((one) => paths(one, `${path}[*]`, depth + 1));
  const named = Object.entries(json).filter(([name]) => NAME.test(name));
  return named
    .slice(0, MAX_PATHS)
    .flatMap(([name, one]) => paths(one, path === '' ? name : `${path}.${name}`, depth + 1));
}
