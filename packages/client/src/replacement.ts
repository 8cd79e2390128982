import type { Call } from './call.ts';
import {
  answerAt,
  copyAt,
  type JsonPlace,
  jsonOf,
  memberOf,
  pathTo,
  placeIn,
  rootOf,
  valueAt,
} from './data.ts';
import {
  badAnswer,
  checkPassed,
  type ServiceResponse,
  type Unapplied,
  unappliedIn,
} from './failures.ts';

export type Operation = 'tokenize' | 'detokenize' | 'lookup';

/** The path of a value of a batch, as the service's messages write it. */
const VALUE = /^data\.values\[(\d+)\]$/;

/** A copy of the data with its strings replaced. */
export interface Outcome {
  readonly data: unknown;
  /** The places that a lenient call leaves as they were. */
  readonly unapplied: readonly Unapplied[];
}

/**
 * Replaces the strings at some places of a copy. They go as lists of values, which the service
 * replaces under any policy; of a record, it would replace only what a policy names.
 */
export async function replaceStrings(
  call: Call,
  root: JsonPlace,
  places: readonly JsonPlace[],
): Promise<Outcome> {
  const replaced = new Map<unknown, string | null>();
  const reasons = new Map<unknown, Unapplied['reason']>();
  const values = new Set(places.map(valueAt));
  const around = ['{"data":{"values":[', ']}}'];
  const batches = batchesOf(call, values, around, (value) => [jsonOf(value), 1]);
  await inTurn(call, batches, async ({ items, body }) => {
    const valueIn = (path: string) => items[Number(VALUE.exec(path)?.[1])];
    const pathFor = (path: string) => {
      const place = places.find((one) => valueAt(one) === valueIn(path));
      return place && pathTo(place);
    };
    const answer = await call.send(body, pathFor);
    checkPassed(answer);
    items.forEach((value, i) => {
      replaced.set(value, checked(memberOf(memberOf(answer.body.data, 'values'), i), answer));
    });
    for (const { path, reason } of unappliedIn(answer)) reasons.set(valueIn(path), reason);
  });
  const unapplied = places.flatMap((place) => {
    const reason = reasons.get(valueAt(place));
    return reason === undefined ? [] : { path: pathTo(place), reason };
  });
  for (const { holder, name } of places) holder[name] = replaced.get(holder[name]);
  return { data: valueAt(root), unapplied };
}

/** Replaces what the policy names in a record, or in a list of records, which can be split. */
export async function replaceRecords(call: Call, data: object): Promise<Outcome> {
  const isList = Array.isArray(data);
  // Array.map would skip the holes of a sparse list.
  const root = rootOf(isList ? [...data] : data);
  const places = isList ? Array.from(data, (_, i) => placeIn(root, i)) : [root];
  const records = places.map((place) => ({
    place,
    strings: copyAt(place).filter((one) => typeof valueAt(one) === 'string'),
  }));
  const around = isList ? ['{"data":[', ']}'] : ['{"data":', '}'];
  const batches = batchesOf(call, records, around, ({ place, strings }) => [
    jsonOf(valueAt(place)),
    strings.length,
  ]);
  const left: Unapplied[][] = [];
  await inTurn(call, batches, async ({ items, from, body }) => {
    const pathFor = (path: string) =>
      path.replace(/^data\[(\d+)\]/, (_, i) => `data[${from + Number(i)}]`);
    const answer = await call.send(body, pathFor);
    const { data } = answer.body;
    items.forEach(({ place, strings }, i) => {
      const record = isList ? memberOf(data, i) : data;
      for (const one of strings)
        one.holder[one.name] = checked(answerAt(one, place, record), answer);
    });
    left[from] = unappliedIn(answer).map((one) => ({ ...one, path: pathFor(one.path) }));
  });
  return { data: valueAt(root), unapplied: left.flat() };
}

/** Works on several batches at once. */
async function inTurn<Batch>(
  { settings }: Call,
  batches: Iterable<Batch>,
  work: (batch: Batch) => Promise<void>,
): Promise<void> {
  const worker = async () => {
    for (const batch of batches) await work(batch);
  };
  await Promise.all(Array.from({ length: settings.concurrency }, worker));
}

function checked(given: unknown, answer: ServiceResponse): string | null {
  if (typeof given === 'string' || (given === null && answer.operation === 'lookup')) return given;
  throw badAnswer(answer);
}

/** The service's limit: each look-up confirms a guess. */
const MAX_LOOKED_UP = 100;

const utf8 = new TextEncoder();

/**
 * Splits lazily. An item that is too large by itself gets a batch of its own.
 * @param around the body before and after the items
 * @param write the JSON of an item, and how many values the service may have to replace in it
 */
export function* batchesOf<T>(
  { operation, settings }: Pick<Call, 'operation' | 'settings'>,
  all: Iterable<T>,
  around: readonly string[],
  write: (item: T) => readonly [json: string, count: number],
) {
  const { maxBytes } = settings;
  const maxValues =
    operation === 'lookup' ? Math.min(settings.maxValues, MAX_LOOKED_UP) : settings.maxValues;
  // Each item counts with its comma; the last item has none.
  const emptyBytes = around.join('').length - 1;
  let [from, values, bytes] = [0, 0, emptyBytes];
  let [items, written]: [T[], string[]] = [[], []];
  const batch = () => ({ items, from, body: around.join(written.join(',')) });
  for (const item of all) {
    const [json, count] = write(item);
    const more = utf8.encode(json).length + 1;
    if (items.length > 0 && (values + count > maxValues || bytes + more > maxBytes)) {
      yield batch();
      [from, values, bytes] = [from + items.length, 0, emptyBytes];
      [items, written] = [[], []];
    }
    items.push(item);
    written.push(json);
    values += count;
    bytes += more;
  }
  if (items.length > 0) yield batch();
}
