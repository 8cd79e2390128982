import { pathText, readPath, type Steps } from '#client/path';
import { eachItem, eachMember, skipSpace, valueEnd } from '#paths/json-text';
import type { PolicyDetail } from './protocol.ts';

/** What the playground sends: the `data` of a request, as JSON, and how it was read. */
export interface Input {
  readonly text: string;
  readonly note: string;
}

/**
 * Reads a pasted text. A text that does not look like JSON is one value. Of the body of a request,
 * only `data` is sent.
 * @param hasFields whether the policy names fields: the service then replaces a list `values`
 * @throws Error with words for the user
 */
export function inputOf(text: string, hasFields = false): Input {
  const trimmed = text.trim();
  if (trimmed === '')
    throw new Error('Type or paste a value or a JSON object, or take the example.');
  const data = /^[{["]/.test(trimmed) ? parsed(trimmed) : trimmed;
  if (typeof data === 'string') {
    const [name, value] = hasFields ? ['values', [data]] : ['value', data];
    const note = `Sent as one value, with the name "${name}".`;
    return { text: JSON.stringify({ [name as string]: value }, null, 2), note };
  }
  if (!isObject(data))
    throw new Error('This must be a JSON object, with names and values: {"name": "Jane Doe"}');
  if (Object.keys(data).join() !== 'data' || !isObject(data.data))
    return { text: trimmed, note: '' };
  return {
    text: trimmed.slice(...placeOf(trimmed, ['data'])!),
    note: 'Sent as the body of a request: what is in "data".',
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`This is not JSON: ${(error as Error).message}`);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A value that is no object or list, with its path, such as `customer.emails[1]`. */
interface Leaf {
  readonly path: string;
  readonly steps: Steps;
  readonly value: unknown;
}

/** All values in objects and lists, in order. */
export function leavesOf(data: unknown, steps: readonly (string | number)[] = []): Leaf[] {
  if (typeof data !== 'object' || data === null)
    return [{ path: inData(pathText(['data', ...steps])), steps, value: data }];
  const stepOf = Array.isArray(data) ? Number : String;
  return Object.entries(data).flatMap(([name, value]) => leavesOf(value, [...steps, stepOf(name)]));
}

/** A path of the service, which begins with `data`, as the page shows it. */
export function inData(path: string): string {
  return path.replace(/^data\.?/, '');
}

/** The path at the start of a service's message: `data.emails[1]: must be a string`. */
function pathIn(message: string): string | undefined {
  return /^(data(?:\.[\w-]+|\[\d+\]|\["(?:[^"\\]|\\.)*"\])*): /.exec(message)?.[1];
}

/** Offsets in `data`, as JSON, of the value that a service's message is about. */
export function placeIn(text: string, message: string): readonly [number, number] | undefined {
  const path = pathIn(message);
  return path === undefined ? undefined : placeOf(text, readPath(path).steps.slice(1));
}

/** Offsets of a value in valid JSON; undefined: the path does not exist. */
export function placeOf(text: string, steps: Steps): readonly [number, number] | undefined {
  let at = skipSpace(text, 0);
  for (const step of steps) {
    let found: number | undefined;
    const see = (name: string | number, from: number) => {
      // As in JSON.parse, the last of several equal names counts.
      if (name === step) found = from;
      return valueEnd(text, from);
    };
    if (text[at] === '[') eachItem(text, at, see);
    else if (text[at] === '{')
      eachMember(text, at, (start, end, from) => see(JSON.parse(text.slice(start, end)), from));
    if (found === undefined) return undefined;
    at = found;
  }
  return [at, valueEnd(text, at)];
}

/**
 * The kind of each string that the service replaces, by path. Other values pass unchanged.
 * @param known the kinds of some strings, wherever they are
 */
export function kindsIn(
  data: object,
  { fields, elsewhere }: PolicyDetail,
  known: ReadonlyMap<unknown, string | undefined> = new Map(),
): ReadonlyMap<string, string> {
  // The service takes a lone list `values` for values of no field, unless the policy names it.
  const isList = 'values' in data && Array.isArray(data.values) && Object.keys(data).length === 1;
  const isText = fields === null || (isList && fields.every(({ steps }) => steps[0] !== 'values'));
  const kindAt = (steps: Steps) => {
    const fits = (step: Steps[number], i: number) =>
      step === steps[i] || (step === null && typeof steps[i] === 'number');
    const field = fields?.find((one) => one.steps.length === steps.length && one.steps.every(fits));
    return field?.kind ?? (elsewhere === 'tokenize' ? 'text' : undefined);
  };
  const kinds = new Map<string, string>();
  for (const { path, steps, value } of leavesOf(data)) {
    // The service replaces no empty string under a policy with fields.
    if (typeof value !== 'string' || (value === '' && !isText)) continue;
    const kind = isText ? 'text' : kindAt(steps);
    if (kind !== undefined) kinds.set(path, known.get(value) ?? kind);
  }
  return kinds;
}

/** Items of a list in an example. */
const MAX_ITEMS = 10;

/** A record with an example in each field, and a number beside them. */
export function recordOf({ kinds, fields }: PolicyDetail): object | undefined {
  if (fields === null) return undefined;
  const record: Record<string | number, unknown> = { order: 1001 };
  for (const { steps, kind } of fields) {
    if (steps.some((step) => Number(step) >= MAX_ITEMS)) continue;
    const { example } = kinds.find(({ name }) => name === kind)!;
    let branch = record;
    for (const [i, step] of steps.entries()) {
      const next = steps[i + 1];
      branch[step ?? 0] ??= next === undefined ? example.value : typeof next === 'string' ? {} : [];
      branch = branch[step ?? 0] as typeof record;
    }
  }
  return record;
}

/** The input that caused a failure, or the service, and the remedy. */
export type Failure = readonly [about: 'api-key' | 'text' | 'service', words: string];

/** @param verb the operation, for the message */
export function failureOf(status: number, body: unknown, verb: string): Failure {
  const json = (body ?? {}) as { readonly message?: string; readonly retry_after?: number };
  const { message = '', retry_after: retryAfter = 1 } = json;
  const known: Record<number, Failure> = {
    400: ['text', message || 'The service does not accept this.'],
    401: ['api-key', 'The service does not know this API key: it is mistyped, expired or revoked.'],
    // With a path, it is about a kind that the client may not see.
    403: pathIn(message)
      ? ['text', message]
      : ['api-key', `The client of this API key may not ${verb}.`],
    413: ['text', 'Too large: the setting BODY_LIMIT is the most that the service accepts.'],
    429: ['api-key', `A limit of this client is reached. Try again in ${retryAfter} s.`],
    503: ['service', 'The service is too busy at the moment. Try again.'],
  };
  return known[status] ?? ['service', message || `The service answered ${status}.`];
}
