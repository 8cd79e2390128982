import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Sample rows that lie beside the checkout where the team has them, else undefined. */
const folder =
  process.env.SAMPLE_DATA_DIR ?? fileURLToPath(new URL('../../../shared/data/', import.meta.url));
export const samplesFolder = existsSync(folder) ? folder : undefined;

export function readSample(name: string): string {
  return readFileSync(`${samplesFolder}/${name}`, 'utf8');
}

/** Rows of a CSV text (RFC 4180) as objects by the names of its first line. */
export function parseCsv(text: string): Record<string, string>[] {
  const rows: string[][] = [[]];
  // A cell: quoted with doubled quotes, or bare; then its separator.
  for (const [, quoted, bare, end] of text.matchAll(
    /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g,
  )) {
    rows.at(-1)!.push(quoted === undefined ? bare! : quoted.replaceAll('""', '"'));
    if (end !== ',') rows.push([]);
  }
  const [names, ...cells] = rows.filter((row) => row.length > 1);
  return cells.map((row) => Object.fromEntries(names!.map((name, i) => [name, row[i] ?? ''])));
}
