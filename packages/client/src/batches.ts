import type { Call } from './call.ts';
import { jsonOf, type Place, valueAt } from './data.ts';

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

export const VALUES: Form<unknown> = {
  head: '{"data":{"values":[',
  tail: ']}}',
  // The service refuses what is no string.
  jsonOf: (value) => (typeof value === 'string' ? JSON.stringify(value) : jsonOf(value)),
  countOf: () => 1,
};

/** With a policy, the service takes a record, or a list of records: copies, and their strings. */
export const RECORD: Form<{ readonly place: Place; readonly strings: readonly Place[] }> = {
  head: '{"data":',
  tail: '}',
  jsonOf: ({ place }) => jsonOf(valueAt(place)),
  countOf: ({ strings }) => strings.length,
};
export const RECORDS = { ...RECORD, head: '{"data":[', tail: ']}' };

/** The service's limit: each look-up confirms a guess. */
const MAX_LOOKED_UP = 100;

const utf8 = new TextEncoder();

/** Splits lazily. An item that is too large by itself gets a batch of its own. */
export function* batchesOf<T>(
  { operation, settings }: Pick<Call, 'operation' | 'settings'>,
  items: Iterable<T>,
  form: Form<T>,
): Generator<Batch<T>, void> {
  const { maxBytes } = settings;
  const maxValues =
    operation === 'lookup' ? Math.min(settings.maxValues, MAX_LOOKED_UP) : settings.maxValues;
  // Each item counts with its comma; the last item has none.
  const emptyBytes = form.head.length + form.tail.length - 1;
  let [from, values, bytes] = [0, 0, emptyBytes];
  let batch: T[] = [];
  let written: string[] = [];
  const made = (body = form.head + written.join(',') + form.tail) => ({ items: batch, from, body });
  for (const item of items) {
    const json = form.jsonOf(item);
    const more = utf8.encode(json).length + 1;
    const count = form.countOf(item);
    if (batch.length > 0 && (values + count > maxValues || bytes + more > maxBytes)) {
      yield made();
      [from, values, bytes] = [from + batch.length, 0, emptyBytes];
      [batch, written] = [[], []];
    }
    batch.push(item);
    written.push(json);
    values += count;
    bytes += more;
  }
  if (batch.length > 0) yield made();
}
