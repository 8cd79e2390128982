import { utf8Bytes } from './data.ts';

/** Values that go in one request, and its body. */
export interface Batch {
  readonly values: readonly string[];
  readonly body: string;
}

const HEAD = '{"data":{"values":[';
const TAIL = ']}}';
/** Each value adds a comma, but for one. */
const EMPTY_BYTES = HEAD.length + TAIL.length - 1;

/** Where a value of a batch stands in the messages of the service. */
export const PLACE_IN_BATCH = /^data\.values\[(\d+)\]$/;

/** Made as they are asked for. A value that is larger than `maxBytes` goes alone. */
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
