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
  readonly hasQuotes: boolean;
  /** Of the cells of the last record, quotes included. */
  readonly starts: number[] = [];
  readonly ends: number[] = [];
  cells = 0;
  lineEnds = 0;
  problem: ScanProblem;
  /** Line ends of the record before the quote that was opened last. */
  quoteLine = 0;

  /** @param delimiter one ASCII byte, not a quote or line end */
  constructor(delimiter: number, hasQuotes: boolean) {
    this.delimiter = delimiter;
    this.hasQuotes = hasQuotes;
  }

  /**
   * The offset after the record and its line end; -1: the bytes end before it does.
   * @param isEnd nothing comes after these bytes, so that they end the record
   */
  scan(bytes: Uint8Array, start: number, isEnd: boolean): number {
    this.cells = 0;
    this.lineEnds = 0;
    this.problem = undefined;
    for (let i = start; ; i++) {
      this.starts[this.cells] = i;
      if (this.hasQuotes && bytes[i] === QUOTE) i = this.#quoted(bytes, i + 1);
      i = this.#bare(bytes, i);
      this.ends[this.cells++] = i;
      const byte = bytes[i];
      if (byte === this.delimiter) continue;
      // A CR may be half of a line end.
      const isOpen = byte === undefined || (byte === CR && i + 1 === bytes.length);
      if (isOpen && !isEnd) return -1;
      if (byte === undefined) return i;
      this.lineEnds++;
      return byte === CR && bytes[i + 1] === LF ? i + 2 : i + 1;
    }
  }

  /** From after a quote to after the one that closes it; to the end of the bytes without one. */
  #quoted(bytes: Uint8Array, start: number): number {
    this.quoteLine = this.lineEnds;
    for (let i = start; i < bytes.length; i++) {
      const byte = bytes[i];
      if (byte === QUOTE) {
        if (bytes[i + 1] !== QUOTE) return i + 1;
        i++;
      } else if (byte === LF || (byte === CR && bytes[i + 1] !== LF)) {
        this.lineEnds++;
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
    const isAfterQuote = start > this.starts[this.cells]!;
    if (isAfterQuote && i > start) this.problem = 'text_after_quote';
    return i;
  }
}
