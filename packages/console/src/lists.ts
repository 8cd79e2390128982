import type { ClientState } from './protocol.ts';

/** What the sortable columns sort by, by head. */
const SORTS = {
  Client: ({ name }: ClientState) => name,
  'API keys': ({ liveApiKeys }: ClientState) => liveApiKeys,
  'Last use': ({ last_used_at: usedAt }: ClientState) => usedAt ?? '',
  'Requests per second': ({ requestsPerS }: ClientState) => requestsPerS ?? -1,
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

/** Clients with all words of the filter in name, id or space. Equal clients stay in their order. */
export function arrange(
  clients: readonly ClientState[],
  filter: string,
  { column, isDescending }: Order,
): ClientState[] {
  const sign = isDescending ? -1 : 1;
  const of = SORTS[column];
  return clients
    .filter(({ name, client_id: id, space }) => hasWords(filter, name, id, space))
    .sort((a, b) => sign * compare(of(a), of(b)));
}

function compare(a: string | number, b: string | number): number {
  return typeof a === 'number' ? a - Number(b) : a.localeCompare(String(b));
}

/** Whether all words of the filter are in the texts. */
export function hasWords(filter: string, ...texts: readonly (string | number | null)[]): boolean {
  const text = texts.join(' ').toLowerCase();
  const words = filter.toLowerCase().split(/\s+/);
  return words.every((word) => text.includes(word));
}
