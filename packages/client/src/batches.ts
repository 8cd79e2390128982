import { utf8Bytes } from './data.ts';

/** The values of one request, and its body. */
export interface Batch {
  readonly values: readonly string[];
  readonly body: string;
}

const HEAD = '{"data":{"values":[';
const TAIL = ']}}';
/** Each value counts with its comma; the last value has none. */
const EMPTY_BYTES = HEAD.length + TAIL.length - 1;

/** The path of a value of a batch, as the service's messages write it. */
export const PLACE_IN_BATCH = /^data\.values\[(\d+)\]$/;

/** Splits lazily. A value larger than `maxBytes` gets a batch of its own. */
export function* batchesOf(
  values: Iterable<string>,
  maxValues: number,
  maxBytes: number,
): Generator<Batch, void> {
  let batch: string[] = [];
  let written: string[] = [];
  let bytes = EMPTY_BYTES;
  for (const value of values) {
    const json = JSON.stringify(value);
    const more = utf8Bytes(json) + 1;
    if (batch.length > 0 && (batch.length === maxValues || bytes + more > maxBytes)) {
      yield { values: batch, body: HEAD + written.join(',') + TAIL };
      batch = [];
      written = [];
      bytes = EMPTY_BYTES;
    }
    batch.push(value);
    written.push(json);
    bytes += more;
  }
  if (batch.length > 0) yield { values: batch, body: HEAD + written.join(',') + TAIL };
}
