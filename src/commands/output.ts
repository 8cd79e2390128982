import { shown, shownLines } from '../terminal.ts';

/**
 * Output of a command: text for people, or with --json one JSON object or array on standard output.
 */
export interface OutputOptions {
  readonly json?: boolean;
}

/** @param text any names in it must have gone through `shown` */
export function print(options: OutputOptions, result: unknown, text: string): void {
  process.stdout.write(`${shownLines(options.json ? JSON.stringify(result) : text)}\n`);
}

/** Rows under headings. Each column is as wide as its widest cell. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows].map((line) => line.map(shown));
  const widths = headings.map((_, i) => Math.max(...lines.map((line) => line[i]!.length)));
  return lines
    .map((line) =>
      line
        .map((cell, i) => cell.padEnd(widths[i]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

export function time(date: Date | null): string {
  return date === null ? '-' : `${date.toISOString().slice(0, 19)}Z`;
}
