import type { PathNode } from './json-path.ts';
import { type Cell, decode, type Problem, type Row, type RowFormat, valueProblem } from './row.ts';

const LF = 0x0a;
const BLANK = /^[ \t\r\n]*$/;
const NOT_SPACE = /[^ \t\r\n]/g;
const AFTER_LITERAL = /[,\]} \t\r\n]|$/g;
const BRACKET_OR_QUOTE = /["[\]{}]/g;

/** Rows of an NDJSON file: one JSON text on each line. */
export class NdjsonFormat implements RowFormat {
  readonly #root: PathNode;

  constructor(root: PathNode) {
    this.#root = root;
  }

  read(bytes: Buffer, start: number, line: number, isEnd: boolean): Row | undefined {
    const at = bytes.indexOf(LF, start);
    if (at === -1 && !isEnd) return undefined;
    const end = at === -1 ? bytes.length : at + 1;
    // latin1 has one character for each byte, so offsets in the text are offsets in the bytes.
    const text = bytes.toString('latin1', start, end);
    const isBlank = BLANK.test(text);
    const row = { line, lineEnds: at === -1 ? 0 : 1, start, end, isBlank };
    if (isBlank) return { ...row, cells: [], problem: undefined };
    try {
      JSON.parse(text);
    } catch {
      return { ...row, cells: [], problem: { field: undefined, reason: 'is not JSON' } };
    }
    const walk = new Walk(text, bytes, start);
    walk.value(0, [this.#root]);
    return { ...row, cells: walk.cells, problem: walk.problem };
  }

  encode(_cell: Cell, value: string): string {
    return JSON.stringify(value);
  }
}

/**
 * Finds the strings at the paths. JSON.parse has checked the text, so the walk only skips all other
 * values. Recursion is as deep as the paths.
 */
class Walk {
  readonly cells: Cell[] = [];
  problem: Problem | undefined;
  readonly #text: string;
  readonly #bytes: Buffer;
  readonly #offset: number;

  /** @param offset of the text in the bytes */
  constructor(text: string, bytes: Buffer, offset: number) {
    this.#text = text;
    this.#bytes = bytes;
    this.#offset = offset;
  }

  /** The offset after the value at or after `from`. */
  value(from: number, nodes: readonly PathNode[]): number {
    const start = this.#find(NOT_SPACE, from);
    const first = this.#text[start];
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
      else this.#complain(inner, 'is a string, and --fields names something inside it');
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

  #addCell(start: number, end: number, { path }: PathNode): void {
    const value = this.#string(start, end);
    if (value === '') return;
    const reason = value === undefined ? 'is not UTF-8' : valueProblem(value);
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
