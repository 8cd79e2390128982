import { type Batch, batchesOf, type Counted } from './batches.ts';
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
import { ForbiddenError, InvalidValueError } from './errors.ts';
import {
  badAnswer,
  checkPassed,
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

/** @param pathFor translates the path of an error: see `inTermsOf` */
async function send(call: Call, body: string, pathFor: (path: string) => string | undefined) {
  const answer = await call.send(body).catch((error) => {
    throw inTermsOf(error, pathFor);
  });
  const { data, unapplied } = parseBody(answer.text);
  return { data, unapplied: unappliedIn(call.operation, answer, unapplied), answer };
}

function checked({ operation }: Call, given: unknown, answer: ServiceResponse): string | null {
  if (typeof given === 'string' || (given === null && operation === 'lookup')) return given;
  throw badAnswer(operation, answer);
}

/**
 * The error in terms of the caller's data.
 * @param pathFor the path there of a path in the request; undefined: the same
 */
function inTermsOf(error: unknown, pathFor: (path: string) => string | undefined): unknown {
  const hasPath = error instanceof InvalidValueError || error instanceof ForbiddenError;
  const before = hasPath ? error.path : undefined;
  const path = before === undefined ? undefined : pathFor(before);
  if (path === undefined) return error;
  if (error instanceof InvalidValueError)
    return new InvalidValueError(path, error.reason, { ...error });
  const { message, detail = '', ...facts } = error as ForbiddenError;
  const moved = (text: string) => text.replace(before!, () => path);
  return new ForbiddenError(moved(message), { ...facts, path, detail: moved(detail) });
}
