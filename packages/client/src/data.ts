import { InvalidValueError } from './errors.ts';
import { pathText } from './path.ts';

/** Strings, nested in lists and objects; in a record also what JSON has besides. */
export type Data = string | Other | Data[] | { [name: string]: Data };
type Other = number | bigint | boolean | null;

/** The service's limits (docs/api.md). The client sends nothing that the service would refuse. */
const MAX_VALUE_BYTES = 65_536;
const MAX_NAME_BYTES = 256;
const MAX_DEPTH = 16;
/** The service has no such limit for a record. This one ends a record that has itself inside. */
const MAX_RECORD_DEPTH = 200;

export type Path = (string | number)[];

export interface Snapshot {
  readonly copy: Data;
  /** The strings of the copy, in order. */
  readonly values: string[];
}

/**
 * A copy, which the caller cannot change during the call. The copy omits undefined properties, as
 * JSON does.
 * @throws InvalidValueError with the path of the faulty value, never with the value
 */
export function snapshot(data: unknown): Snapshot {
  if (typeof data !== 'object' || data === null)
    throw refused(['data'], `must be an object or a list, not ${typeName(data)}`);
  const values: string[] = [];
  return { copy: copied(data, ['data'], values, false), values };
}

/**
 * `snapshot` of a record, of which the service checks only what the policy names.
 * @param path of the record, for messages
 */
export function snapshotOfRecord(record: unknown, path: Path): Snapshot {
  if (!isPlainObject(record) || Array.isArray(record))
    throw refused(path, `must be a record, a plain object, not ${typeName(record)}`);
  const values: string[] = [];
  return { copy: copied(record, [...path], values, true), values };
}

function copied(data: unknown, path: Path, values: string[], isRecord: boolean): Data {
  if (typeof data === 'string') {
    if (!isRecord) checkText(data, path);
    values.push(data);
    return data;
  }
  if (isRecord && isOther(data)) return data;
  const isList = Array.isArray(data);
  if (!isList && !isPlainObject(data))
    throw isRecord ? notJson(data, path) : notAString(data, path);
  const maxDepth = isRecord ? MAX_RECORD_DEPTH : MAX_DEPTH;
  if (path.length > maxDepth) throw refused(path, `is nested deeper than ${maxDepth} levels`);
  const inside = (name: string | number, one: unknown) => {
    path.push(name);
    const copy = copied(one, path, values, isRecord);
    path.pop();
    return copy;
  };
  // Array.map would skip the holes of a sparse list.
  if (isList) return Array.from(data, (one, i) => inside(i, one));
  const copy: { [name: string]: Data } = {};
  for (const [name, one] of Object.entries(data)) {
    if (one === undefined) continue;
    checkName(name, path);
    copy[name] = inside(name, one);
  }
  return copy;
}

function isOther(data: unknown): data is Other {
  if (typeof data === 'number') return Number.isFinite(data);
  return data === null || typeof data === 'boolean' || typeof data === 'bigint';
}

/**
 * The copy as JSON. A bigint becomes 0: for the service only its type counts, and the answer gets
 * the bigint of the copy.
 */
export function jsonOf(copy: Data): string {
  return JSON.stringify(copy, function (this: Record<string, unknown>, name, one) {
    // A program may have given bigints a toJSON, which was called before.
    return typeof this[name] === 'bigint' ? 0 : one;
  });
}

/**
 * A copy of `data` with every string replaced. `replace` gets the string, and whatever `twin`, an
 * answer of the same structure, has at the same path.
 */
export function rebuilt(
  data: Data,
  replace: (value: string, twin: unknown) => string | null,
  twin?: unknown,
): Data {
  if (typeof data === 'string') return replace(data, twin);
  if (typeof data !== 'object' || data === null) return data;
  const twins = (typeof twin === 'object' ? twin : null) as Record<string, unknown> | null;
  const inside = (name: string | number, one: Data) => rebuilt(one, replace, twins?.[name]);
  if (Array.isArray(data)) return data.map((one, i) => inside(i, one));
  const copy: { [name: string]: Data } = {};
  for (const [name, one] of Object.entries(data)) copy[name] = inside(name, one);
  return copy;
}

/** The path of the first occurrence of a value, for messages. */
export function pathOf(data: Data, value: string): string {
  for (const [text, path] of stringsIn(data, ['data'])) if (text === value) return pathText(path);
  return 'data';
}

/** All strings with their paths, in order. */
export function* stringsIn(data: Data, path: Path): Generator<readonly [string, Path]> {
  if (typeof data === 'string') yield [data, path];
  else if (typeof data === 'object' && data !== null)
    for (const [name, one] of Object.entries(data))
      yield* stringsIn(one, [...path, Array.isArray(data) ? Number(name) : name]);
}

/** Bytes of well-formed text in UTF-8. A surrogate pair has four, two for each half. */
export function utf8Bytes(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit > 0x7f) bytes += unit < 0x800 || (unit >= 0xd800 && unit < 0xe000) ? 1 : 2;
  }
  return bytes;
}

/** @throws InvalidValueError unless the value is a string that the service takes */
export function mustBeString(value: unknown, path: Path): asserts value is string {
  if (typeof value === 'string') return checkText(value, path);
  throw notAString(value, path);
}

function notAString(value: unknown, path: Path): InvalidValueError {
  return refused(path, `must be a string, not ${typeName(value)}${remedy(value)}`);
}

function notJson(value: unknown, path: Path): InvalidValueError {
  const type = typeof value === 'number' ? String(value) : typeName(value);
  return refused(
    path,
    `must be JSON, not ${type}${typeof value === 'number' ? '' : remedy(value)}`,
  );
}

/** Node 18 has no String.isWellFormed. */
const HALF_PAIR = /\p{Surrogate}/u;

function checkText(text: string, path: Path): void {
  if (HALF_PAIR.test(text))
    throw refused(path, 'must be well-formed Unicode; it has half of a surrogate pair');
  if (text.length * 3 > MAX_VALUE_BYTES && utf8Bytes(text) > MAX_VALUE_BYTES)
    throw refused(path, `must not be longer than ${MAX_VALUE_BYTES} bytes`);
}

function checkName(name: string, path: Path): void {
  if (name === '__proto__')
    throw refused(path, 'has a field named __proto__, which is not allowed');
  if (HALF_PAIR.test(name)) throw refused(path, 'has a field name that is not well-formed Unicode');
  if (name.length * 3 > MAX_NAME_BYTES && utf8Bytes(name) > MAX_NAME_BYTES)
    throw refused(path, `has a field name longer than ${MAX_NAME_BYTES} bytes`);
}

/** False for instances of classes such as Date or Map, which JSON would alter. Any realm. */
export function isPlainObject(data: unknown): data is object {
  if (typeof data !== 'object' || data === null) return false;
  const prototype = Object.getPrototypeOf(data);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function typeName(data: unknown): string {
  if (data === null || data === undefined) return String(data);
  if (typeof data !== 'object') return `a ${typeof data}`;
  const name = Object.getPrototypeOf(data).constructor?.name;
  return name ? `an instance of ${name}` : 'an instance of a class';
}

function remedy(data: unknown): string {
  if (typeof data === 'number') return '; convert it to a string, because JSON numbers lose digits';
  if (data === null || data === undefined) return '; leave it out';
  return typeof data === 'object' ? '; use plain objects and lists' : '';
}

export function refused(path: Path, reason: string): InvalidValueError {
  return new InvalidValueError(pathText(path), reason, { code: 'invalid_type', attempts: 0 });
}
