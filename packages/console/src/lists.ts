import type { ClientState, RecentRequest } from './protocol.ts';

/** Sortable columns by head. */
const SORTS = {
  Client: (a: ClientState, b: ClientState) => a.name.localeCompare(b.name),
  'API keys': (a: ClientState, b: ClientState) => a.liveApiKeys - b.liveApiKeys,
  'Last use': (a: ClientState, b: ClientState) =>
    (a.last_used_at ?? '').localeCompare(b.last_used_at ?? ''),
  'Requests per second': (a: ClientState, b: ClientState) =>
    (a.requestsPerS ?? -1) - (b.requestsPerS ?? -1),
};

export type SortColumn = keyof typeof SORTS;

export interface Order {
  readonly column: SortColumn;
  readonly isDescending: boolean;
}

export function isSortable(head: string): head is SortColumn {
  return head in SORTS;
}

/** The order after a click on a head: names rise at first, numbers fall. */
export function clicked(column: SortColumn, before: Order): Order {
  const isDescending = column === before.column ? !before.isDescending : column !== 'Client';
  return { column, isDescending };
}

/**
 * Clients with all words of the filter in name, id or space. Equal clients sort by name, then id.
 */
export function arrange(
  clients: readonly ClientState[],
  filter: string,
  { column, isDescending }: Order,
): ClientState[] {
  const sign = isDescending ? -1 : 1;
  return clients
    .filter(({ name, client_id: id, space }) => hasWords(filter, name, id, space))
    .sort(
      (a, b) =>
        sign * SORTS[column](a, b) || SORTS.Client(a, b) || (a.client_id < b.client_id ? -1 : 1),
    );
}

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
