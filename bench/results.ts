import type { JobResult } from './load.ts';

/** The figures of one turn, by the heading of their column; undefined or NaN: not known. */
export type Figures = Readonly<Record<string, number | undefined>>;

/** A cell of a table of the page. */
export interface Cell {
  /** The heading of the table. */
  readonly section: string;
  readonly row: string;
  readonly column: string;
}

/** All figures of a run, and what became of its requests. */
export class Results {
  readonly #samples: (Cell & { readonly round: number; readonly figure: number })[] = [];
  readonly failures: string[] = [];
  #right = 0;
  /** Tokens that were detokenized and compared. */
  verifiedTokens = 0;

  add(section: string, row: string, round: number, figures: Figures): void {
    for (const [column, figure] of Object.entries(figures)) {
      if (figure === undefined || !Number.isFinite(figure)) continue;
      this.#samples.push({ section, row, column, round, figure });
    }
  }

  /** What fails is left out, and said on the page. */
  async attempt<T>(what: string, step: () => Promise<T>): Promise<T | undefined> {
    return step().catch(({ message }: Error) => {
      console.error(`${what}: ${message}`);
      this.failures.push(`Failed: ${what}: ${message}.`);
      return undefined;
    });
  }

  count(what: string, { count, failures }: JobResult): void {
    this.#right += count;
    for (const [reason, times] of Object.entries(failures))
      this.failures.push(`Failed: ${what}: ${whole(times)} x ${reason}.`);
  }

  /** The median of the rounds, or the longest of all; undefined: not measured. */
  figure(cell: Cell): number | undefined {
    const figures = this.#rounds(cell).map(({ figure }) => figure);
    if (figures.length > 0 && cell.column.startsWith('longest')) return Math.max(...figures);
    return median(figures);
  }

  /** The ratios round by round: a slow machine slows both. */
  ratios(cell: Cell, row: string): number[] {
    const others = this.#rounds({ ...cell, row });
    return this.#rounds(cell).flatMap(({ round, figure }) => {
      const divisor = others.find((one) => one.round === round)?.figure;
      return divisor ? [figure / divisor] : [];
    });
  }

  /** All tables, as Markdown. */
  sections(): string[] {
    return [...new Set(this.#samples.map(({ section }) => section))].map((section) => {
      const ofSection = this.#samples.filter((one) => one.section === section);
      const columns = [...new Set(ofSection.map(({ column }) => column))];
      const rows = [...new Set(ofSection.map(({ row }) => row))].map((row) => [
        row,
        ...columns.map((column) => this.#text({ section, row, column })),
      ]);
      const headings = columns.map((one) => (isRate(one) ? `${one} (min–max)` : one));
      return `## ${section}\n\n${table(['', ...headings], rows)}`;
    });
  }

  /** What became of the requests. */
  checks(): string {
    const lines = [
      `${whole(this.#right)} requests were answered with the right data.`,
      `The tokens of ${whole(this.verifiedTokens)} values, drawn at random, were detokenized and compared.`,
      ...(this.failures.length === 0 ? ['Nothing failed.'] : this.failures),
    ];
    return `## Checks\n\n${lines.map((line) => `- ${line}`).join('\n')}`;
  }

  #rounds({ section, row, column }: Cell) {
    return this.#samples.filter(
      (one) => one.section === section && one.row === row && one.column === column,
    );
  }

  #text(cell: Cell): string {
    const figure = this.figure(cell);
    if (figure === undefined) return NONE;
    const figures = this.#rounds(cell).map((one) => one.figure);
    if (!isRate(cell.column) || figures.length === 1) return threeDigits(figure);
    return `${whole(figure)} (${whole(Math.min(...figures))}–${whole(Math.max(...figures))})`;
  }
}

export function isRate(column: string): boolean {
  return column.endsWith('s/s');
}

/** The cell for an unknown or meaningless figure. */
export const NONE = '–';

/** @returns undefined for an empty list */
export function median(numbers: readonly number[]): number | undefined {
  const sorted = numbers.toSorted((a, b) => a - b);
  const half = sorted.length / 2;
  const [low, high] = [sorted[Math.ceil(half) - 1], sorted[Math.floor(half)]];
  return low === undefined || high === undefined ? undefined : (low + high) / 2;
}

export function whole(number: number): string {
  return Math.round(number).toLocaleString('en-US');
}

/** At least. */
export function threeDigits(number: number): string {
  if (number >= 100 || number === 0) return whole(number);
  return number.toFixed(number < 10 ? 2 : 1);
}

export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(headings), `|${'---|'.repeat(headings.length)}`, ...rows.map(line)].join('\n');
}
