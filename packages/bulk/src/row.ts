import { isUtf8 } from 'node:buffer';

/** A value to replace, and the place of its bytes in the block. */
export interface Cell {
  /** The name in --fields. */
  readonly field: string;
  /** Offsets in the bytes of the block, quotes included. */
  readonly start: number;
  readonly end: number;
  readonly value: string;
  readonly isQuoted: boolean;
}

/** The fault of a row. Never contains the content of a cell. */
export interface Problem {
  /** undefined: the row as a whole. */
  readonly field: string | undefined;
  readonly reason: string;
}

export interface Row {
  /** Line number of the first byte, in an array of the item's first byte, from 1. */
  readonly line: number;
  /** How many line ends follow in the row, the last one included. */
  readonly lineEnds: number;
  /** Offsets in the bytes of the block. The row includes its line end. */
  readonly start: number;
  readonly end: number;
  /** An empty line, which is copied and not counted. */
  readonly isBlank: boolean;
  /** In the order of their bytes, without blank cells. */
  readonly cells: readonly Cell[];
  /** The paths in --fields that the row has. */
  readonly paths: readonly string[];
  problem: Problem | undefined;
}

/** The content of a blank row. */
export const NOTHING = { cells: [], paths: [], problem: undefined };

/** How many lines end between the offsets. `indexOf` would search all bytes after a row. */
export function lineEndsIn(bytes: Uint8Array, start: number, end: number): number {
  let count = 0;
  for (let at = start; at < end; at++) if (bytes[at] === LF) count++;
  return count;
}

/** The format of a file's rows. */
export interface RowFormat {
  /** The fields that rows may lack. A column is in every row. */
  readonly fields: readonly { readonly path: string; readonly isOptional: boolean }[];
  /** Fields of the first row, for messages. */
  readonly sample: readonly string[];
  /** Closes an array of rows; undefined: the rows are no array. */
  readonly end?: Buffer | undefined;
  /**
   * The row that begins at `start`; undefined: the row is incomplete.
   * @param isEnd no bytes follow
   * @throws BulkError for a quote that never closes
   */
  read(bytes: Buffer, start: number, line: number, isEnd: boolean): Row | undefined;
  /** The text of a cell with a new value; undefined: the format cannot hold the value. */
  encode(cell: Cell, value: string): string | undefined;
}

const LF = 0x0a;

/** A longer row probably has a quote that never closes. */
export const MAX_ROW_BYTES = 16 * 1024 * 1024;

/** The service's limit for one value. */
export const MAX_VALUE_BYTES = 65_536;

export const NOT_UTF8 = 'is not UTF-8';

/** Why the service would refuse a value, in the service's words; undefined: it would not. */
export function valueProblem(value: string): string | undefined {
  if (value.length * 3 > MAX_VALUE_BYTES && Buffer.byteLength(value) > MAX_VALUE_BYTES)
    return `is longer than ${MAX_VALUE_BYTES} bytes`;
  return value.isWellFormed() ? undefined : 'has half of a surrogate pair';
}

const REPLACEMENT = '\ufffd';

/** undefined: the bytes are not UTF-8. */
export function decode(bytes: Buffer, start: number, end: number): string | undefined {
  const text = bytes.toString('utf8', start, end);
  // A text may have this character itself.
  const isText = !text.includes(REPLACEMENT) || isUtf8(bytes.subarray(start, end));
  return isText ? text : undefined;
}

/** The file or the options end the run. The message is for the person who runs the command. */
export class BulkError extends Error {}

/** A file cannot be written: the disk is full, for example. */
export class WriteError extends BulkError {}

/** A bad row, when bad rows end the run. */
export class BadRowError extends BulkError {
  constructor({ line, problem }: Row) {
    const { field, reason } = problem!;
    const what = field === undefined ? 'row' : `field ${JSON.stringify(field)}`;
    const remedy =
      reason === NOT_UTF8 ? ' (convert the file, for example with iconv -f LATIN1 -t UTF-8)' : '';
    super(`Line ${line}: the ${what} ${reason}${remedy}`);
  }
}
