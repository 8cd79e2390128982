const QUOTE = 0x22;
const LF = 0x0a;
const CR = 0x0d;

/** What a record breaks. */
export type ScanProblem = 'text_after_quote' | 'unclosed_quote' | undefined;

/**
 * Finds the cells of one record (RFC 4180) as byte offsets. LF, CR LF and CR end a record; a quote
 * that does not begin its cell is a character like any other, as spreadsheets read it.
 * One object for all records of a file, so that a record costs no garbage.
 */
export class CsvScanner {
  readonly delimiter: number;
  readonly has_quotes: boolean;
  /** Of the cells of the last record, quotes included. */
  readonly starts: number[] = [];
  readonly ends: number[] = [];
  cells = 0;
  line_ends = 0;
  problem: ScanProblem;
  /** Line ends of the record before the quote that was opened last. */
  quote_line = 0;

  /** @param delimiter one ASCII byte, not a quote or line end */
  constructor(delimiter: number, has_quotes: boolean) {
    this.delimiter = delimiter;
    this.has_quotes = has_quotes;
  }

  /**
   * The offset after the record and its line end; -1: the bytes end before it does.
   * @param is_end nothing comes after these bytes, so that they end the record
   */
  scan(bytes: Uint8Array, start: number, is_end: boolean): number {
    this.cells = 0;
    this.line_ends = 0;
    this.problem = undefined;
    for (let i = start; ; i++) {
      this.starts[this.cells] = i;
      if (this.has_quotes && bytes[i] === QUOTE) i = this.#quoted(bytes, i + 1);
      i = this.#bare(bytes, i);
      this.ends[this.cells++] = i;
      const byte = bytes[i];
      if (byte === this.delimiter) continue;
      // A CR may be half of a line end.
      const is_open = byte === undefined || (byte === CR && i + 1 === bytes.length);
      if (is_open && !is_end) return -1;
      if (byte === undefined) return i;
      this.line_ends++;
      return byte === CR && bytes[i + 1] === LF ? i + 2 : i + 1;
    }
  }

  /** From after a quote to after the one that closes it; to the end of the bytes without one. */
  #quoted(bytes: Uint8Array, start: number): number {
    this.quote_line = this.line_ends;
    for (let i = start; i < bytes.length; i++) {
      const byte = bytes[i];
      if (byte === QUOTE) {
        if (bytes[i + 1] !== QUOTE) return i + 1;
        i++;
      } else if (byte === LF || (byte === CR && bytes[i + 1] !== LF)) {
        this.line_ends++;
      }
    }
    this.problem = 'unclosed_quote';
    return bytes.length;
  }

  /** To the delimiter or line end; something there after a closed quote is a problem. */
  #bare(bytes: Uint8Array, start: number): number {
    let i = start;
    while (i < bytes.length) {
      const byte = bytes[i]!;
      if (byte === this.delimiter || byte === LF || byte === CR) break;
      i++;
    }
    const is_after_quote = start > this.starts[this.cells]!;
    if (is_after_quote && i > start) this.problem = 'text_after_quote';
    return i;
  }
}
