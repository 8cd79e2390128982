import { INCOMPLETE, type PathNode, skipSpace, valueEnd } from '#paths';
import { BulkError } from './bulk-error.ts';
import { JsonTexts } from './json-walk.ts';
import { blankRow, lineEndsIn, type Row, type RowFormat } from './row.ts';

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
    const text = this.textOf(bytes);
    const lineAt = (offset: number) => line + lineEndsIn(bytes, start, offset);
    const wrong = (offset: number) =>
      new BulkError(
        `Line ${lineAt(offset)} of ${this.#name} is not JSON: a comma or bracket is wrong there`,
      );
    const first = skipSpace(text, start);
    const isClosed = this.#isArray && text[first] === ']';
    if (isClosed || (!this.#isArray && first === text.length)) {
      const end = skipSpace(text, first + Number(isClosed));
      if (end < text.length) throw wrong(end);
      const lineEnds = lineEndsIn(bytes, start, end);
      return isEnd ? blankRow({ line, lineEnds, start, end }) : undefined;
    }
    const item = this.#item(text, first, isEnd, wrong);
    if (item === undefined && isEnd)
      throw new BulkError(`${this.#name} ends in the middle of its JSON`);
    if (item === undefined) return undefined;
    const [from, end] = item;
    this.#hasRows = true;
    const lines = { line: lineAt(from), lineEnds: lineEndsIn(bytes, from, end) };
    return { ...lines, start, end, isBlank: false, ...this.find(bytes, from, end) };
  }

  /** Where an item begins and ends; undefined: the text ends before what follows the item. */
  #item(
    text: string,
    first: number,
    isEnd: boolean,
    wrong: (offset: number) => BulkError,
  ): [from: number, end: number] | undefined {
    const hasComma = this.#isArray && this.#hasRows;
    if (hasComma && first < text.length && text[first] !== ',') throw wrong(first);
    const from = hasComma ? skipSpace(text, first + 1) : first;
    if (from >= text.length) return undefined;
    if (',]}'.includes(text[from]!)) throw wrong(from);
    const end = valueEnd(text, from);
    if (end === INCOMPLETE) return undefined;
    const next = this.#isArray ? skipSpace(text, end) : end;
    // An array that is cut off never seems complete.
    if (next === text.length) return isEnd && !this.#isArray ? [from, end] : undefined;
    if (this.#isArray && !',]'.includes(text[next]!)) throw wrong(next);
    return [from, end];
  }
}

/** The bytes of rows that nothing comes before: without the comma before the first row. */
export function withoutComma(bytes: Buffer): Buffer {
  const at = skipSpace(bytes.toString('latin1'), 0);
  if (bytes[at] !== 0x2c) return bytes;
  return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)]);
}
