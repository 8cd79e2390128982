import type { ClientState } from './protocol.ts';

/** Orders of the clients by name. The service sends the most recently used client first. */
export const ORDERS = {
  'Last use': () => 0,
  Name: (a: ClientState, b: ClientState) => a.name.localeCompare(b.name),
  Rate: (a: ClientState, b: ClientState) => (b.requestsPerS ?? 0) - (a.requestsPerS ?? 0),
};

/** Clients with all words of the filter in name, id or space. Equal clients stay in their order. */
export function arrange(
  clients: readonly ClientState[],
  filter: string,
  order: keyof typeof ORDERS,
): ClientState[] {
  return clients
    .filter(({ name, client_id: id, space }) => hasWords(filter, name, id, space))
    .sort(ORDERS[order]);
}

/** Whether all words of the filter are in the texts. */
export function hasWords(filter: string, ...texts: readonly (string | number | null)[]): boolean {
  const text = texts.join(' ').toLowerCase();
  const words = filter.toLowerCase().split(/\s+/);
  return words.every((word) => text.includes(word));
}
