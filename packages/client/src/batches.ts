import { jsonOf, type Snapshot, utf8Bytes } from './data.ts';

/** Consecutive items in one request, and its body. */
export interface Batch<T> {
  readonly items: readonly T[];
  /** The index of the first item. */
  readonly from: number;
  readonly body: string;
}

/** How a list of items is sent. */
interface Form<T> {
  readonly head: string;
  readonly tail: string;
  jsonOf(item: T): string;
  /** How many values of an item the service may have to replace. */
  countOf(item: T): number;
}

export const VALUES: Form<string> = {
  head: '{"data":{"values":[',
  tail: ']}}',
  jsonOf: JSON.stringify,
  countOf: () => 1,
};

/** With a policy, the service takes a list of records. */
export const RECORDS: Form<Snapshot> = {
  head: '{"data":[',
  tail: ']}',
  jsonOf: ({ copy }) => jsonOf(copy),
  countOf: ({ values }) => values.length,
};

/** The path of a value of a batch, as the service's messages write it. */
export const PLACE_IN_BATCH = /^data\.values\[(\d+)\]$/;

/** Splits lazily. An item that is too large by itself gets a batch of its own. */
export function* batchesOf<T>(
  items: Iterable<T>,
  form: Form<T>,
  { maxValues, maxBytes }: { readonly maxValues: number; readonly maxBytes: number },
): Generator<Batch<T>, void> {
  // Each item counts with its comma; the last item has none.
  const emptyBytes = form.head.length + form.tail.length - 1;
  let from = 0;
  let batch: T[] = [];
  let written: string[] = [];
  let values = 0;
  let bytes = emptyBytes;
  const made = (): Batch<T> => ({
    items: batch,
    from,
    body: form.head + written.join(',') + form.tail,
  });
  for (const item of items) {
    const json = form.jsonOf(item);
    const more = utf8Bytes(json) + 1;
    const count = form.countOf(item);
    if (batch.length > 0 && (values + count > maxValues || bytes + more > maxBytes)) {
      yield made();
      from += batch.length;
      batch = [];
      written = [];
      values = 0;
      bytes = emptyBytes;
    }
    batch.push(item);
    written.push(json);
    values += count;
    bytes += more;
  }
  if (batch.length > 0) yield made();
}
