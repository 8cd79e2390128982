import { BulkError } from './bulk-error.ts';
import type { CsvScanner } from './csv-scanner.ts';
import {
  type Cell,
  decode,
  NOT_UTF8,
  type Problem,
  type Row,
  type RowFormat,
  valueProblem,
} from './row.ts';

const QUOTE = 0x22;

/** A column named by --fields. */
export interface Column {
  readonly field: string;
  /** From 0. */
  readonly index: number;
}

/** Rows of a CSV or TSV file. */
export class CsvFormat implements RowFormat {
  readonly fields: RowFormat['fields'];
  readonly sample = [];
  readonly #scanner: CsvScanner;
  readonly #cells: number;
  readonly #columns: readonly Column[];
  readonly #counted: readonly string[];
  readonly #needsQuotes: RegExp;

  /**
   * @param cells how many each row must have
   * @param counted the fields to report: those that a policy has in the file
   */
  constructor(
    scanner: CsvScanner,
    cells: number,
    columns: readonly Column[],
    counted: readonly string[],
  ) {
    this.#scanner = scanner;
    this.#cells = cells;
    this.#columns = columns.toSorted((a, b) => a.index - b.index);
    this.fields = counted.map((path) => ({ path, isOptional: true }));
    this.#counted = counted;
    const delimiter = `\\x${scanner.delimiter.toString(16).padStart(2, '0')}`;
    this.#needsQuotes = new RegExp(`[${delimiter}\\r\\n${scanner.hasQuotes ? '"' : ''}]`);
  }

  read(bytes: Buffer, start: number, line: number, isEnd: boolean): Row | undefined {
    const scanner = this.#scanner;
    const end = scanner.scan(bytes, start, isEnd);
    if (end === -1) return undefined;
    if (scanner.problem === 'unclosed_quote')
      throw new BulkError(`The quote that opens on line ${line + scanner.quoteLine} never closes`);
    const { lineEnds } = scanner;
    const isBlank = scanner.cells === 1 && scanner.starts[0] === scanner.ends[0];
    const row = { line, lineEnds, start, end, isBlank, cells: [], paths: [], problem: undefined };
    if (isBlank) return row;
    const problem = this.#shapeProblem();
    if (problem !== undefined) return { ...row, problem: { field: undefined, reason: problem } };
    return this.#withCells(bytes, row);
  }

  #shapeProblem(): string | undefined {
    const { problem, cells } = this.#scanner;
    if (problem !== undefined) return 'has text after a closing quote';
    if (cells === this.#cells) return undefined;
    return `has ${cells} ${cells === 1 ? 'cell' : 'cells'} instead of ${this.#cells}`;
  }

  #withCells(bytes: Buffer, row: Row): Row {
    const { starts, ends, hasQuotes } = this.#scanner;
    const cells: Cell[] = [];
    let problem: Problem | undefined;
    for (const { field, index } of this.#columns) {
      const start = starts[index]!;
      const end = ends[index]!;
      const isQuoted = hasQuotes && start < end && bytes[start] === QUOTE;
      const value = isQuoted ? unquoted(bytes, start + 1, end - 1) : decode(bytes, start, end);
      if (value === '') continue;
      const reason = value === undefined ? NOT_UTF8 : valueProblem(value);
      if (reason !== undefined) problem ??= { field, reason };
      cells.push({ field, start, end, value: value ?? '', isQuoted });
    }
    return { ...row, cells, paths: this.#counted, problem };
  }

  encode({ isQuoted }: Cell, value: string): string | undefined {
    if (!isQuoted && !this.#needsQuotes.test(value)) return value;
    if (!this.#scanner.hasQuotes) return undefined;
    return `"${value.includes('"') ? value.replaceAll('"', '""') : value}"`;
  }
}

function unquoted(bytes: Buffer, start: number, end: number): string | undefined {
  const text = decode(bytes, start, end);
  return text?.includes('"') ? text.replaceAll('""', '"') : text;
}
