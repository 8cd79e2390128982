import type { RecentRequest } from './protocol.ts';

/** Every reason with the number of its requests, the most frequent first. */
export function reasonsOf(requests: readonly RecentRequest[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { why } of requests) counts.set(why, (counts.get(why) ?? 0) + 1);
  return new Map([...counts].sort(([a, of], [b, other]) => other - of || (a < b ? -1 : 1)));
}

/**
 * Requests for this reason with all words of the filter.
 * @param reason '': any
 * @param names of clients by id
 */
export function chosen(
  requests: readonly RecentRequest[],
  reason: string,
  filter: string,
  names: ReadonlyMap<string, string>,
): RecentRequest[] {
  const words = filter.toLowerCase().split(/\s+/);
  return requests.filter((one) => {
    if (reason !== '' && one.why !== reason) return false;
    const { client_id: id, request_id: requestId, route, status, why } = one;
    const name = id === null ? '' : (names.get(id) ?? '');
    const text = `${name} ${id} ${requestId} ${route} ${status} ${why}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}
