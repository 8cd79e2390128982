import { type JsonType, JsonWalk, type PathNode, valueEnd, valueNodes } from '#paths';
import { type Cell, decode, NOT_UTF8, type Problem, valueProblem } from './row.ts';

/** What a row has at the paths. */
interface FoundText {
  readonly cells: readonly Cell[];
  readonly problem: Problem | undefined;
  /** The paths in --fields that lead to anything, also to null or a blank string. */
  readonly paths: readonly string[];
}

/** JSON texts in a file. */
export class JsonTexts {
  readonly fields: readonly PathNode[];
  readonly #root: PathNode;
  /** Whether empty strings are cells. */
  readonly #keepsBlank: boolean;
  #sample: readonly string[] | undefined;
  #bytes: Buffer | undefined;
  #text = '';

  constructor(root: PathNode, keepsBlank = false) {
    this.#root = root;
    this.#keepsBlank = keepsBlank;
    this.fields = valueNodes(root);
  }

  /** The paths of strings in the first text. */
  get sample(): readonly string[] {
    return this.#sample ?? [];
  }

  /** One character for each byte, so offsets in the text are offsets in the bytes. */
  protected textOf(bytes: Buffer): string {
    if (bytes !== this.#bytes) this.#text = bytes.toString('latin1');
    this.#bytes = bytes;
    return this.#text;
  }

  /** @param start offsets of a JSON text in the bytes, without spaces before it */
  protected find(bytes: Buffer, start: number, end: number): FoundText {
    const text = this.textOf(bytes);
    try {
      JSON.parse(text.slice(start, end));
    } catch {
      return { cells: [], problem: { field: undefined, reason: 'is not JSON' }, paths: [] };
    }
    this.#sample ??= pathsIn(JSON.parse(bytes.toString('utf8', start, end)));
    return new Walk(text, bytes, this.#keepsBlank).from(start, this.#root);
  }

  encode(_cell: Cell, value: string): string {
    return JSON.stringify(value);
  }
}

/** Finds the strings at the paths. Recursion is as deep as the paths. */
class Walk extends JsonWalk {
  #cells: Cell[] = [];
  readonly #paths: string[] = [];
  #problem: Problem | undefined;
  readonly #bytes: Buffer;
  readonly #keepsBlank: boolean;

  constructor(text: string, bytes: Buffer, keepsBlank: boolean) {
    super(text);
    this.#bytes = bytes;
    this.#keepsBlank = keepsBlank;
  }

  from(start: number, root: PathNode): FoundText {
    this.value(start, root);
    return { cells: this.#cells, problem: this.#problem, paths: this.#paths };
  }

  protected override value(at: number, node: PathNode): number {
    if (node.isValue) this.#note(node);
    // An empty list has the path, so that it counts as found.
    if (node.every?.isValue && this.text[at] === '[') this.#note(node.every);
    return super.value(at, node);
  }

  protected override inside(
    name: string | number | undefined,
    at: number,
    node: PathNode | undefined,
    { every }: PathNode,
  ): number {
    if (node === undefined) return valueEnd(this.text, at);
    const end = this.value(at, node);
    // A path of one item, beside that of every item.
    if (typeof name === 'number' && every !== undefined && every !== node) {
      this.value(at, every);
      const byStart = new Map(this.#cells.map((cell) => [cell.start, cell]));
      this.#cells = [...byStart.values()].sort((one, other) => one.start - other.start);
    }
    return end;
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
    this.#problem ??= { field: path || undefined, reason };
    return valueEnd(this.text, at);
  }

  protected override string(start: number, end: number, { path }: PathNode): void {
    const value = this.read(start, end);
    if (value === '' && !this.#keepsBlank) return;
    const reason = value === undefined ? NOT_UTF8 : valueProblem(value);
    if (reason !== undefined) this.#problem ??= { field: path, reason };
    this.#cells.push({ field: path, start, end, value: value ?? '', isQuoted: true });
  }

  /** undefined: the bytes are not UTF-8. */
  protected override raw(start: number, end: number): string | undefined {
    return decode(this.#bytes, start, end);
  }

  #note({ path }: PathNode): void {
    if (!this.#paths.includes(path)) this.#paths.push(path);
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
