import { BulkError } from './bulk-error.ts';
import type { PathNode } from './json-path.ts';
import { JsonTexts } from './json-walk.ts';
import { afterSpaces, blankRow, lineEndsIn } from './ndjson.ts';
import type { Row, RowFormat } from './row.ts';

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const END_OF_ARRAY = 0x5d;

/** The bytes needed are not there yet. */
const INCOMPLETE = -1;

/**
 * Rows of a JSON file: the items of one array, or texts with spaces between them. A row begins with
 * the comma before its item. The end of the array is a blank row.
 */
export class JsonFormat extends JsonTexts implements RowFormat {
  readonly #name: string;
  readonly #isArray: boolean;
  #hasRows: boolean;

  /**
   * @param name of the file, for messages
   * @param hasRows whether rows of the array were read before
   */
  constructor(
    root: PathNode,
    name: string,
    isArray: boolean,
    hasRows: boolean,
    keepsBlank?: boolean,
  ) {
    super(root, keepsBlank);
    this.#name = name;
    this.#isArray = isArray;
    this.#hasRows = hasRows;
  }

  get end(): Buffer | undefined {
    return this.#isArray ? Buffer.from('\n]\n') : undefined;
  }

  read(bytes: Buffer, start: number, line: number, isEnd: boolean): Row | undefined {
    const first = afterSpaces(bytes, start);
    const isClosed = this.#isArray && bytes[first] === END_OF_ARRAY;
    if (isClosed || (!this.#isArray && first === bytes.length)) {
      const end = afterSpaces(bytes, isClosed ? first + 1 : first);
      if (end < bytes.length) throw this.#wrong(bytes, start, line, end);
      const lineEnds = lineEndsIn(bytes, start, end);
      return isEnd ? blankRow({ line, lineEnds, start, end }) : undefined;
    }
    const from = this.#itemStart(bytes, start, line, first);
    const end = from === INCOMPLETE ? from : valueEnd(bytes, from, isEnd);
    const next = end === INCOMPLETE ? end : this.#next(bytes, start, line, end);
    if (next !== INCOMPLETE) return this.#row(bytes, start, line, from, end);
    if (isEnd) throw new BulkError(`${this.#name} ends in the middle of its JSON`);
    return undefined;
  }

  /** The offset of the item, after the comma that all but the first item have. */
  #itemStart(bytes: Buffer, start: number, line: number, first: number): number {
    if (first === bytes.length) return INCOMPLETE;
    const hasComma = this.#isArray && this.#hasRows;
    if (hasComma && bytes[first] !== COMMA) throw this.#wrong(bytes, start, line, first);
    const from = hasComma ? afterSpaces(bytes, first + 1) : first;
    if (from === bytes.length) return INCOMPLETE;
    if (bytes[from] === COMMA || isClosing(bytes[from]!))
      throw this.#wrong(bytes, start, line, from);
    return from;
  }

  /** What follows an item must be there: so an array that is cut off never seems complete. */
  #next(bytes: Buffer, start: number, line: number, end: number): number {
    if (!this.#isArray) return end;
    const next = afterSpaces(bytes, end);
    if (next === bytes.length) return INCOMPLETE;
    if (bytes[next] === COMMA || bytes[next] === END_OF_ARRAY) return next;
    throw this.#wrong(bytes, start, line, next);
  }

  #row(bytes: Buffer, start: number, line: number, from: number, end: number): Row {
    this.#hasRows = true;
    const lines = {
      line: line + lineEndsIn(bytes, start, from),
      lineEnds: lineEndsIn(bytes, from, end),
    };
    return { ...lines, start, end, isBlank: false, ...this.find(bytes, from, end) };
  }

  #wrong(bytes: Buffer, start: number, line: number, at: number): BulkError {
    const on = line + lineEndsIn(bytes, start, at);
    return new BulkError(
      `Line ${on} of ${this.#name} is not JSON: a comma or bracket is wrong there`,
    );
  }
}

/** The bytes of rows that nothing comes before: without the comma before the first row. */
export function withoutComma(bytes: Buffer): Buffer {
  const at = afterSpaces(bytes, 0);
  if (bytes[at] !== COMMA) return bytes;
  return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)]);
}

/**
 * The offset after the value at `start`, found by brackets and quotes alone; -1: it is incomplete.
 * @param isEnd no bytes follow
 */
function valueEnd(bytes: Uint8Array, start: number, isEnd: boolean): number {
  let depth = 0;
  for (let at = start; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte === QUOTE) {
      at = closingQuote(bytes, at);
      if (at === INCOMPLETE) return INCOMPLETE;
      if (depth === 0) return at + 1;
    } else if (byte === 0x5b || byte === 0x7b) {
      depth++;
    } else if (isClosing(byte)) {
      // A bracket after a number belongs to what is around it.
      if (depth === 0) return at;
      if (--depth === 0) return at + 1;
    } else if (depth === 0 && (byte === COMMA || byte <= 0x20)) {
      return at;
    }
  }
  return isEnd && depth === 0 ? bytes.length : INCOMPLETE;
}

function isClosing(byte: number): boolean {
  return byte === END_OF_ARRAY || byte === 0x7d;
}

function closingQuote(bytes: Uint8Array, start: number): number {
  for (let at = start + 1; at < bytes.length; at++) {
    if (bytes[at] === BACKSLASH) at++;
    else if (bytes[at] === QUOTE) return at;
  }
  return INCOMPLETE;
}
