import { pathsIn } from './fields.ts';
import { type PathNode, valueNodes } from './json-path.ts';
import { type Cell, decode, NOT_UTF8, type Problem, valueProblem } from './row.ts';

const NOT_SPACE = /[^ \t\r\n]/g;
const AFTER_LITERAL = /[,\]} \t\r\n]|$/g;
const BRACKET_OR_QUOTE = /["[\]{}]/g;

/** What a row has at the paths. */
export interface Found {
  readonly cells: readonly Cell[];
  readonly problem: Problem | undefined;
  /** The paths in --fields that lead to anything, also to null or a blank string. */
  readonly paths: readonly string[];
}

/** JSON texts in a file. */
export class JsonTexts {
  readonly fields: readonly PathNode[];
  readonly #root: PathNode;
  #sample: readonly string[] | undefined;

  /** Whether empty strings are cells. */
  readonly #keepsBlank: boolean;

  constructor(root: PathNode, keepsBlank = false) {
    this.#root = root;
    this.#keepsBlank = keepsBlank;
    this.fields = valueNodes(root);
  }

  /** The paths of strings in the first text. */
  get sample(): readonly string[] {
    return this.#sample ?? [];
  }

  /** @param start offsets of a JSON text in the bytes, with or without spaces around it */
  find(bytes: Buffer, start: number, end: number): Found {
    // latin1 has one character for each byte, so offsets in the text are offsets in the bytes.
    const text = bytes.toString('latin1', start, end);
    try {
      JSON.parse(text);
    } catch {
      return { cells: [], problem: { field: undefined, reason: 'is not JSON' }, paths: [] };
    }
    this.#sample ??= pathsIn(JSON.parse(bytes.toString('utf8', start, end)));
    const walk = new Walk(text, bytes, start, this.#keepsBlank);
    walk.value(0, [this.#root]);
    return walk;
  }

  encode(_cell: Cell, value: string): string {
    return JSON.stringify(value);
  }
}

/**
 * Finds the strings at the paths. JSON.parse has checked the text, so the walk only skips all other
 * values. Recursion is as deep as the paths.
 */
class Walk implements Found {
  readonly cells: Cell[] = [];
  readonly paths: string[] = [];
  problem: Problem | undefined;
  readonly #text: string;
  readonly #bytes: Buffer;
  readonly #offset: number;
  readonly #keepsBlank: boolean;

  /** @param offset of the text in the bytes */
  constructor(text: string, bytes: Buffer, offset: number, keepsBlank: boolean) {
    this.#keepsBlank = keepsBlank;
    this.#text = text;
    this.#bytes = bytes;
    this.#offset = offset;
  }

  /** The offset after the value at or after `from`. */
  value(from: number, nodes: readonly PathNode[]): number {
    const start = this.#find(NOT_SPACE, from);
    const first = this.#text[start];
    for (const node of nodes) if (node.isValue) this.#note(node);
    if (nodes.length > 0 && (first === '{' || first === '[')) {
      this.#checkContainer(nodes, first === '{');
      return first === '{' ? this.#object(start, nodes) : this.#array(start, nodes);
    }
    const end = this.#skip(start);
    if (nodes.length === 0 || first === 'n') return end;
    if (first !== '"') {
      const type = first === 't' || first === 'f' ? 'a boolean' : 'a number';
      this.#complain(nodes[0]!, `is ${type}, not a string`);
    } else {
      const inner = nodes.find((node) => !node.isValue);
      if (inner === undefined) this.#addCell(start, end, nodes[0]!);
      else this.#complain(inner, 'is a string, and a field is named inside it');
    }
    return end;
  }

  #object(start: number, nodes: readonly PathNode[]): number {
    let at = this.#find(NOT_SPACE, start + 1);
    while (this.#text[at] !== '}') {
      const nameEnd = this.#skip(at);
      const name = this.#string(at, nameEnd);
      const inner = name === undefined ? [] : nodes.flatMap((node) => node.names.get(name) ?? []);
      at = this.value(this.#find(NOT_SPACE, nameEnd) + 1, inner);
      at = this.#find(NOT_SPACE, at);
      if (this.#text[at] === ',') at = this.#find(NOT_SPACE, at + 1);
    }
    return at + 1;
  }

  #array(start: number, nodes: readonly PathNode[]): number {
    // An empty list has the path, so that it counts as found.
    for (const { every } of nodes) if (every?.isValue) this.#note(every);
    let at = this.#find(NOT_SPACE, start + 1);
    for (let i = 0; this.#text[at] !== ']'; i++) {
      const inner = nodes.flatMap((node) => [node.every ?? [], node.indexes.get(i) ?? []].flat());
      at = this.#find(NOT_SPACE, this.value(at, inner));
      if (this.#text[at] === ',') at = this.#find(NOT_SPACE, at + 1);
    }
    return at + 1;
  }

  #checkContainer(nodes: readonly PathNode[], isObject: boolean): void {
    const type = isObject ? 'an object' : 'an array';
    for (const node of nodes) {
      const hasSteps = isObject ? node.names.size > 0 : node.every || node.indexes.size > 0;
      if (hasSteps) continue;
      const remedy = isObject ? 'name fields inside it' : `write ${node.path}[*] for all its items`;
      this.#complain(node, `is ${type}: ${node.isValue ? remedy : 'the path does not fit'}`);
    }
  }

  #note({ path }: PathNode): void {
    if (!this.paths.includes(path)) this.paths.push(path);
  }

  #addCell(start: number, end: number, { path }: PathNode): void {
    const value = this.#string(start, end);
    if (value === '' && !this.#keepsBlank) return;
    const reason = value === undefined ? NOT_UTF8 : valueProblem(value);
    if (reason !== undefined) this.problem ??= { field: path, reason };
    this.cells.push({
      field: path,
      start: this.#offset + start,
      end: this.#offset + end,
      value: value ?? '',
      isQuoted: true,
    });
  }

  /** The string between these offsets; undefined: the bytes are not UTF-8. */
  #string(start: number, end: number): string | undefined {
    const text = decode(this.#bytes, this.#offset + start + 1, this.#offset + end - 1);
    return text?.includes('\\') ? JSON.parse(`"${text}"`) : text;
  }

  /** The offset after the value that begins at `start`. */
  #skip(start: number): number {
    const first = this.#text[start];
    if (first === '"') return this.#stringEnd(start);
    if (first !== '{' && first !== '[') return this.#find(AFTER_LITERAL, start);
    let at = start;
    for (let depth = 0; ; ) {
      const found = this.#text[at];
      if (found === '"') at = this.#stringEnd(at);
      else {
        depth += found === '{' || found === '[' ? 1 : -1;
        at++;
        if (depth === 0) return at;
      }
      at = this.#find(BRACKET_OR_QUOTE, at);
    }
  }

  /** The offset after the closing quote. An odd number of backslashes escapes a quote. */
  #stringEnd(start: number): number {
    for (let at = this.#text.indexOf('"', start + 1); ; at = this.#text.indexOf('"', at + 1)) {
      let backslashes = 0;
      while (this.#text[at - 1 - backslashes] === '\\') backslashes++;
      if (backslashes % 2 === 0) return at + 1;
    }
  }

  #find(pattern: RegExp, from: number): number {
    pattern.lastIndex = from;
    return pattern.exec(this.#text)!.index;
  }

  #complain({ path }: PathNode, reason: string): void {
    this.problem ??= { field: path || undefined, reason };
  }
}
