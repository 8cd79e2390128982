import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Sample rows from a file beside the checkout; undefined: the file is not there. */
const folder =
  process.env.SAMPLE_DATA_DIR ?? fileURLToPath(new URL('../../../shared/data/', import.meta.url));
export const samplesFolder = existsSync(folder) ? folder : undefined;

export function readSample(name: string): string {
  return readFileSync(`${samplesFolder}/${name}`, 'utf8');
}

/** Rows of a CSV text (RFC 4180), as objects with the names of the first line. */
export function parseCsv(text: string): Record<string, string>[] {
  const rows: string[][] = [[]];
  // A cell, either quoted with doubled quotes or bare, and its separator.
  for (const [, quoted, bare, end] of text.matchAll(
    /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g,
  )) {
    rows.at(-1)!.push(quoted === undefined ? bare! : quoted.replaceAll('""', '"'));
    if (end !== ',') rows.push([]);
  }
  const [names, ...cells] = rows.filter((row) => row.length > 1);
  return cells.map((row) => Object.fromEntries(names!.map((name, i) => [name, row[i] ?? ''])));
}
