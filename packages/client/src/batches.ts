import type { Call } from './call.ts';

/** Consecutive items in one request, and its body. */
export interface Batch<T> {
  readonly items: readonly T[];
  /** The index of the first item. */
  readonly from: number;
  readonly body: string;
}

/** An item, its JSON, and how many values the service may have to replace in it. */
export type Counted<T> = readonly [item: T, json: string, count: number];

/** The service's limit: each look-up confirms a guess. */
const MAX_LOOKED_UP = 100;

const utf8 = new TextEncoder();

/** Splits lazily. An item that is too large by itself gets a batch of its own. */
export function* batchesOf<T>(
  { operation, settings }: Pick<Call, 'operation' | 'settings'>,
  head: string,
  items: Iterable<Counted<T>>,
  tail: string,
): Generator<Batch<T>, void> {
  const { maxBytes } = settings;
  const maxValues =
    operation === 'lookup' ? Math.min(settings.maxValues, MAX_LOOKED_UP) : settings.maxValues;
  // Each item counts with its comma; the last item has none.
  const emptyBytes = head.length + tail.length - 1;
  let [from, values, bytes] = [0, 0, emptyBytes];
  let batch: T[] = [];
  let written: string[] = [];
  for (const [item, json, count] of items) {
    const more = utf8.encode(json).length + 1;
    if (batch.length > 0 && (values + count > maxValues || bytes + more > maxBytes)) {
      yield { items: batch, from, body: head + written.join(',') + tail };
      [from, values, bytes] = [from + batch.length, 0, emptyBytes];
      [batch, written] = [[], []];
    }
    batch.push(item);
    written.push(json);
    values += count;
    bytes += more;
  }
  if (batch.length > 0) yield { items: batch, from, body: head + written.join(',') + tail };
}
