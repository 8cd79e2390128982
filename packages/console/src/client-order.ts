import type { ClientState } from './protocol.ts';

export type Column = 'name' | 'last_used' | 'rate' | 'keys';

export interface Order {
  readonly column: Column;
  readonly isDescending: boolean;
}

const COMPARE: Record<Column, (a: ClientState, b: ClientState) => number> = {
  name: (a, b) => a.name.localeCompare(b.name),
  last_used: (a, b) => (a.last_used_at ?? '').localeCompare(b.last_used_at ?? ''),
  rate: (a, b) => (a.requestsPerS ?? -1) - (b.requestsPerS ?? -1),
  keys: (a, b) => a.liveApiKeys - b.liveApiKeys,
};

/**
 * Clients with all words of the filter in name, id or space. Equal clients sort by name, then id.
 */
export function arrange(
  clients: readonly ClientState[],
  filter: string,
  { column, isDescending }: Order,
): ClientState[] {
  const words = filter.toLowerCase().split(/\s+/);
  const has = ({ name, client_id: clientId, space }: ClientState) => {
    const text = `${name} ${clientId} ${space}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const sign = isDescending ? -1 : 1;
  return clients
    .filter(has)
    .sort(
      (a, b) =>
        sign * COMPARE[column](a, b) || COMPARE.name(a, b) || (a.client_id < b.client_id ? -1 : 1),
    );
}
