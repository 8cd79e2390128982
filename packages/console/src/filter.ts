import type { RecentRequest } from './protocol.ts';

/** Whether all words of the filter are in the texts. */
export function hasWords(filter: string, ...texts: readonly (string | number | null)[]): boolean {
  const text = texts.join(' ').toLowerCase();
  const words = filter.toLowerCase().split(/\s+/);
  return words.every((word) => text.includes(word));
}

/** Every reason with the number of its requests, the most frequent first. */
export function reasonsOf(requests: readonly RecentRequest[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { why } of requests) counts.set(why, (counts.get(why) ?? 0) + 1);
  return new Map([...counts].sort(([a, of], [b, other]) => other - of || (a < b ? -1 : 1)));
}
