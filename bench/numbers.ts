/** The cell for an unknown or meaningless figure. */
export const NONE = '–';

/** @returns undefined for an empty list */
export function median(numbers: readonly number[]): number | undefined {
  const sorted = numbers.toSorted((a, b) => a - b);
  const half = sorted.length / 2;
  const [low, high] = [sorted[Math.ceil(half) - 1], sorted[Math.floor(half)]];
  return low === undefined || high === undefined ? undefined : (low + high) / 2;
}

/** The smallest number that at least this share of the sorted numbers does not exceed, or 0. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
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
