import type { JobResult } from './load.ts';
import { median, NONE, table, whole } from './numbers.ts';

/** The figures of one turn, by the heading of their column; undefined or NaN: not known. */
export type Figures = Readonly<Record<string, number | undefined>>;

/** A cell of a table of the page. */
export interface Cell {
  /** The heading of the table. */
  readonly section: string;
  readonly row: string;
  readonly column: string;
}

interface Sample extends Cell {
  readonly round: number;
  readonly figure: number;
}

/** All figures of a run, and what became of its requests. */
export class Results {
  readonly #samples: Sample[] = [];
  /** Columns of each section, in order. */
  readonly #columns = new Map<string, Set<string>>();
  readonly #notes = new Map<string, string>();
  readonly #failures: string[] = [];
  #right = 0;
  #failed = 0;
  /** Tokens that were detokenized and compared. */
  verifiedTokens = 0;

  add(section: string, row: string, round: number, figures: Figures): void {
    const columns = this.#columns.get(section) ?? new Set();
    this.#columns.set(section, columns);
    for (const [column, figure] of Object.entries(figures)) {
      columns.add(column);
      if (figure === undefined || Number.isNaN(figure)) continue;
      this.#samples.push({ section, row, column, round, figure });
    }
  }

  /** Text below the table. */
  note(section: string, text: string): void {
    this.#notes.set(section, text);
  }

  count(what: string, { count: right, failures }: JobResult): void {
    this.#right += right;
    for (const [reason, count] of Object.entries(failures)) {
      this.#failed += count;
      this.#failures.push(`Failed: ${what}: ${whole(count)} x ${reason}.`);
    }
  }

  get failed(): number {
    return this.#failed;
  }

  /** The median of the rounds, or the longest of all; undefined: not measured. */
  figure(cell: Cell): number | undefined {
    const figures = this.#rounds(cell).map(({ figure }) => figure);
    if (figures.length > 0 && cell.column.startsWith('longest')) return Math.max(...figures);
    return median(figures);
  }

  /** Median of the ratios, round by round: a slow machine slows both. */
  ratio(cell: Cell, other: Partial<Cell>): number | undefined {
    const others = this.#rounds({ ...cell, ...other });
    return median(
      this.#rounds(cell).flatMap(({ round, figure }) => {
        const divisor = others.find((one) => one.round === round)?.figure;
        return divisor ? [figure / divisor] : [];
      }),
    );
  }

  /** All tables but some, as Markdown. @param leftOut titles */
  sections(leftOut: readonly string[]): string[] {
    const shown = [...this.#columns].filter(([section]) => !leftOut.includes(section));
    return shown.map(([section, all]) => {
      const ofSection = this.#samples.filter((one) => one.section === section);
      const columns = [...all].filter((name) => ofSection.some(({ column }) => column === name));
      const rows = distinct(ofSection.map(({ row }) => row)).map((row) => [
        row,
        ...columns.map((column) => this.#text({ section, row, column })),
      ]);
      const headings = columns.map((one) => (isRate(one) ? `${one} (min–max)` : one));
      const note = this.#notes.get(section);
      const parts = [`## ${section}`, table(['', ...headings], rows), ...(note ? [note] : [])];
      return parts.join('\n\n');
    });
  }

  /** What became of the requests. */
  checks(): string {
    const lines = [
      `${whole(this.#right)} requests were answered with the right data; ${whole(this.#failed)} were not.`,
      `The tokens of ${whole(this.verifiedTokens)} values, drawn at random, were detokenized and compared.`,
      ...this.#failures,
    ];
    return `## Checks\n\n${lines.map((line) => `- ${line}`).join('\n')}`;
  }

  #rounds({ section, row, column }: Cell): Sample[] {
    return this.#samples.filter(
      (one) => one.section === section && one.row === row && one.column === column,
    );
  }

  #text(cell: Cell): string {
    const figure = this.figure(cell);
    if (figure === undefined) return NONE;
    const figures = this.#rounds(cell).map((one) => one.figure);
    if (!isRate(cell.column) || figures.length === 1) return short(figure);
    return `${whole(figure)} (${whole(Math.min(...figures))}–${whole(Math.max(...figures))})`;
  }
}

function isRate(column: string): boolean {
  return column.endsWith('s/s');
}

/** Three digits at least. */
function short(number: number): string {
  if (number >= 100 || number === 0) return whole(number);
  return number.toFixed(number < 10 ? 2 : 1);
}

function distinct(texts: readonly string[]): string[] {
  return [...new Set(texts)];
}
