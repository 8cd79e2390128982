import { placeOf } from './json-place.ts';

/** What the playground sends: the `data` of a request, as JSON, and how it was read. */
export interface Input {
  readonly text: string;
  readonly note: string;
}

/** The name of a plain value in the request. */
const PLAIN_NAME = 'value';
/** The list of values that the service replaces whatever fields the policy has. */
const LIST_NAME = 'values';

/**
 * Reads a pasted text. A text that does not look like JSON is one value; the body of a request is
 * taken for its `data`.
 * @param hasFields whether the policy names fields
 * @throws Error with words for the user
 */
export function inputOf(text: string, hasFields = false): Input {
  const trimmed = text.trim();
  if (trimmed === '')
    throw new Error('Type or paste a value or a JSON object, or take the example.');
  if (!/^[{["]/.test(trimmed)) return plain(trimmed, hasFields);
  const data = parsed(trimmed);
  if (typeof data === 'string') return plain(data, hasFields);
  if (!isObject(data)) {
    throw new Error('This must be a JSON object, with names and values: {"name": "Jane Doe"}');
  }
  const [name, ...others] = Object.keys(data);
  if (name !== 'data' || others.length > 0 || !isObject(data.data)) {
    return { text: trimmed, note: '' };
  }
  return {
    text: trimmed.slice(...placeOf(trimmed, ['data'])!),
    note: 'Sent as the body of a request: what is in "data".',
  };
}

function plain(value: string, hasFields: boolean): Input {
  const data = hasFields ? { [LIST_NAME]: [value] } : { [PLAIN_NAME]: value };
  const [name] = Object.keys(data);
  return {
    text: JSON.stringify(data, null, 2),
    note: `Sent as one value, with the name "${name}".`,
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

/** A value with its path, such as `customer.emails[1]`. */
interface Leaf {
  readonly path: string;
  readonly value: unknown;
}

/** All values in objects and lists, in order. */
export function leavesOf(data: unknown, path = ''): Leaf[] {
  if (Array.isArray(data)) return data.flatMap((item, i) => leavesOf(item, `${path}[${i}]`));
  if (!isObject(data)) return [{ path, value: data }];
  return Object.entries(data).flatMap(([name, value]) =>
    leavesOf(value, path + stepOf(name, path)),
  );
}

function stepOf(name: string, before: string): string {
  if (!/^[A-Za-z_][\w-]*$/.test(name)) return `[${JSON.stringify(name)}]`;
  return before === '' ? name : `.${name}`;
}
