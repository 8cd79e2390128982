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
  type PathFor,
  parseBody,
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
  /** What a lenient call leaves as it was. */
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
  const batches = batchesOf(call, '{"data":{"values":[', valuesAt(places), ']}}');
  await inTurn(call, batches, async ({ items, body }) => {
    const valueIn = (path: string) => items[Number(VALUE.exec(path)?.[1])];
    const pathFor = (path: string) => {
      const place = places.find((one) => valueAt(one) === valueIn(path));
      return place && pathTo(place);
    };
    const { data, unapplied, answer } = await send(call, body, pathFor);
    checkPassed(call.operation, answer);
    items.forEach((value, i) => {
      replaced.set(value, checked(call, memberOf(memberOf(data, 'values'), i), answer));
    });
    for (const { path, reason } of unapplied) reasons.set(valueIn(path), reason);
  });
  const unapplied = places.flatMap((place) => {
    const reason = reasons.get(valueAt(place));
    return reason === undefined ? [] : { path: pathTo(place), reason };
  });
  for (const { holder, name } of places) holder[name] = replaced.get(holder[name]);
  return { data: valueAt(root), unapplied };
}

function* valuesAt(places: readonly JsonPlace[]): Generator<Counted<unknown>> {
  // The service refuses what is no string.
  for (const value of new Set(places.map(valueAt)))
    yield [value, typeof value === 'string' ? JSON.stringify(value) : jsonOf(value), 1];
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
  function* counted(): Generator<Counted<(typeof records)[number]>> {
    for (const one of records) yield [one, jsonOf(valueAt(one.place)), one.strings.length];
  }
  const [head, tail] = isList ? ['{"data":[', ']}'] : ['{"data":', '}'];
  const left: Unapplied[][] = [];
  await inTurn(call, batchesOf(call, head!, counted(), tail!), async ({ items, from, body }) => {
    const pathFor = (path: string) =>
      path.replace(/^data\[(\d+)\]/, (_, i) => `data[${from + Number(i)}]`);
    const reply = await send(call, body, pathFor);
    items.forEach(({ place, strings }, i) => {
      const record = isList ? memberOf(reply.data, i) : reply.data;
      for (const one of strings)
        one.holder[one.name] = checked(call, answerAt(one, place, record), reply.answer);
    });
    left[from] = reply.unapplied.map((one) => ({ ...one, path: pathFor(one.path) }));
  });
  return { data: valueAt(root), unapplied: left.flat() };
}

/** Works on several batches at once. */
async function inTurn<T>(
  { settings }: Call,
  batches: Iterable<Batch<T>>,
  work: (batch: Batch<T>) => Promise<void>,
): Promise<void> {
  const worker = async () => {
    for (const batch of batches) await work(batch);
  };
  await Promise.all(Array.from({ length: settings.concurrency }, worker));
}

/** @param pathFor see `Call.send` */
async function send(call: Call, body: string, pathFor: PathFor) {
  const answer = await call.send(body, pathFor);
  const { data, unapplied } = parseBody(answer.text);
  return { data, unapplied: unappliedIn(call.operation, answer, unapplied), answer };
}

function checked({ operation }: Call, given: unknown, answer: ServiceResponse): string | null {
  if (typeof given === 'string' || (given === null && operation === 'lookup')) return given;
  throw badAnswer(operation, answer);
}

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
