import {
  BulkError,
  type Cell,
  decode,
  NOT_UTF8,
  NOTHING,
  type Problem,
  type Row,
  type RowFormat,
  valueProblem,
} from './row.ts';

const QUOTE = 0x22;
const LF = 0x0a;
const CR = 0x0d;

/** A column named by --fields. */
export interface Column {
  readonly field: string;
  /** From 0. */
  readonly index: number;
}

/**
 * Rows of a CSV or TSV file.
 * @param width how many cells each row must have
 * @param counted the fields to report: those that a policy has in the file
 */
export function csvFormat(
  scanner: CsvScanner,
  width: number,
  columns: readonly Column[],
  counted: readonly string[],
): RowFormat {
  const { hasQuotes } = scanner;
  const ordered = columns.toSorted((a, b) => a.index - b.index);
  const delimiter = `\\x${scanner.delimiter.toString(16).padStart(2, '0')}`;
  const needsQuotes = new RegExp(`[${delimiter}\\r\\n${hasQuotes ? '"' : ''}]`);
  return {
    fields: counted.map((path) => ({ path, isOptional: true })),
    sample: [],
    read(bytes, start, line, isEnd) {
      const end = scanner.scan(bytes, start, isEnd);
      if (end === -1) return undefined;
      if (scanner.problem === 'unclosed_quote')
        throw new BulkError(
          `The quote that opens on line ${line + scanner.quoteLine} never closes`,
        );
      const { lineEnds } = scanner;
      const isBlank = scanner.cells === 1 && scanner.starts[0] === scanner.ends[0];
      const row = { line, lineEnds, start, end, isBlank, ...NOTHING };
      if (isBlank) return row;
      const reason = shapeProblem(scanner, width);
      if (reason !== undefined) return { ...row, problem: { field: undefined, reason } };
      return { ...row, paths: counted, ...cellsOf(scanner, ordered, bytes) };
    },
    encode({ isQuoted }, value) {
      if (!isQuoted && !needsQuotes.test(value)) return value;
      if (!hasQuotes) return undefined;
      return `"${value.replaceAll('"', '""')}"`;
    },
  };
}

function shapeProblem({ problem, cells }: CsvScanner, width: number): string | undefined {
  if (problem !== undefined) return 'has text after a closing quote';
  if (cells === width) return undefined;
  return `has ${cells} ${cells === 1 ? 'cell' : 'cells'} instead of ${width}`;
}

function cellsOf(
  { starts, ends, hasQuotes }: CsvScanner,
  columns: readonly Column[],
  bytes: Buffer,
): Pick<Row, 'cells' | 'problem'> {
  const cells: Cell[] = [];
  let problem: Problem | undefined;
  for (const { field, index } of columns) {
    const start = starts[index]!;
    const end = ends[index]!;
    const isQuoted = hasQuotes && bytes[start] === QUOTE;
    const value = isQuoted ? unquoted(bytes, start + 1, end - 1) : decode(bytes, start, end);
    if (value === '') continue;
    const reason = value === undefined ? NOT_UTF8 : valueProblem(value);
    if (reason !== undefined) problem ??= { field, reason };
    cells.push({ field, start, end, value: value ?? '', isQuoted });
  }
  return { cells, problem };
}

function unquoted(bytes: Buffer, start: number, end: number): string | undefined {
  return decode(bytes, start, end)?.replaceAll('""', '"');
}

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
