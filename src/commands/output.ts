import { shown, shownLines } from '../terminal.ts';

/**
 * How commands answer: for people by default, one JSON object or array on standard output with
 * --json.
 */
export interface OutputOptions {
  readonly json?: boolean;
}

/** @param text where a name is part of a line, `shown` has made it fit for a terminal */
export function print(options: OutputOptions, result: unknown, text: string): void {
  process.stdout.write(`${shownLines(options.json ? JSON.stringify(result) : text)}\n`);
}

/** Rows under headings, columns as wide as their widest cell. */
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
