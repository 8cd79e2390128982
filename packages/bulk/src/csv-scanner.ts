const QUOTE = 0x22;
const LF = 0x0a;
const CR = 0x0d;

/** How a record breaks the format. */
type ScanProblem = 'text_after_quote' | 'unclosed_quote' | undefined;

/**
 * Finds the cells of one record (RFC 4180) as byte offsets. LF, CR LF and CR end a record. A quote
 * inside an unquoted cell is an ordinary character, as in spreadsheets.
 * One scanner serves all records of a file, so that a record allocates nothing.
 */
export class CsvScanner {
  readonly delimiter: number;
  readonly hasQuotes: boolean;
  /** Offsets of the cells of the last record, quotes included. */
  readonly starts: number[] = [];
  readonly ends: number[] = [];
  cells = 0;
  lineEnds = 0;
  problem: ScanProblem;
  /** How many line ends of the record come before the quote that opened last. */
  quoteLine = 0;

  /** @param delimiter one ASCII byte, not a quote or line end */
  constructor(delimiter: number, hasQuotes: boolean) {
    this.delimiter = delimiter;
    this.hasQuotes = hasQuotes;
  }

  /**
   * The offset after the record and its line end; -1: the record is incomplete.
   * @param isEnd no bytes follow, so the end of the bytes ends the record
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
      // A CR at the end of the bytes may be half of a CR LF.
      const isOpen = byte === undefined || (byte === CR && i + 1 === bytes.length);
      if (isOpen && !isEnd) return -1;
      if (byte === undefined) return i;
      this.lineEnds++;
      return byte === CR && bytes[i + 1] === LF ? i + 2 : i + 1;
    }
  }

  /** The offset after the closing quote; without a closing quote, the end of the bytes. */
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

  /** The offset of the delimiter or line end. Text after a closing quote is a problem. */
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
