/** A value of a row that is to be replaced, and where its bytes are in the block. */
export interface Cell {
  /** As --fields names it. */
  readonly field: string;
  /** Offsets in the bytes of the block; quotes lie between them. */
  readonly start: number;
  readonly end: number;
  readonly value: string;
  readonly isQuoted: boolean;
}

/** What is wrong with a row. Never says what a cell holds. */
export interface Problem {
  /** undefined: the row as a whole. */
  readonly field: string | undefined;
  readonly reason: string;
}

export interface Row {
  /** Of its first byte, from 1. */
  readonly line: number;
  /** How many line ends it has, its own included. */
  readonly lineEnds: number;
  /** Offsets in the bytes of the block; the line end is part of the row. */
  readonly start: number;
  readonly end: number;
  /** A line with nothing in it: copied, and not counted. */
  readonly isBlank: boolean;
  /** In the order of their bytes. Blank cells are not among them. */
  readonly cells: readonly Cell[];
  problem: Problem | undefined;
}

/** How the rows of a file are written. */
export interface RowFormat {
  /**
   * The row that begins at an offset; undefined: its end is not among these bytes.
   * @param isEnd nothing comes after these bytes
   * @throws UnclosedQuote
   */
  read(bytes: Buffer, start: number, line: number, isEnd: boolean): Row | undefined;
  /** The bytes of a cell, as text, with a new value; undefined: the format cannot hold it. */
  encode(cell: Cell, value: string): string | undefined;
}

/** A longer one is taken for a quote that was never closed. */
export const MAX_ROW_BYTES = 16 * 1024 * 1024;

/** What the service takes in one value. */
export const MAX_VALUE_BYTES = 65_536;

/** Why the service would not take a value, in its words; undefined: it would. */
export function valueProblem(value: string): string | undefined {
  if (value.length * 3 > MAX_VALUE_BYTES && Buffer.byteLength(value) > MAX_VALUE_BYTES)
    return `is longer than ${MAX_VALUE_BYTES} bytes`;
  return value.isWellFormed() ? undefined : 'has half of a surrogate pair';
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const REPLACEMENT = '\ufffd';

/** undefined: the bytes are not UTF-8. */
export function decode(bytes: Buffer, start: number, end: number): string | undefined {
  const text = bytes.toString('utf8', start, end);
  if (!text.includes(REPLACEMENT)) return text;
  try {
    return UTF8.decode(bytes.subarray(start, end));
  } catch {
    return undefined;
  }
}
