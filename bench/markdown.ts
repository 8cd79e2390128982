/** The cell for an unknown or meaningless figure. */
export const NONE = '–';

export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(headings), `|${'---|'.repeat(headings.length)}`, ...rows.map(line)].join('\n');
}

export function whole(number: number): string {
  return Math.round(number).toLocaleString('en-US');
}
