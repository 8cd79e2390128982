import { InvalidValueError } from './errors.ts';

/** Strings, nested in lists and objects. */
export type Data = string | Data[] | { [name: string]: Data };

/** The service's limits (docs/api.md). The client sends nothing that the service would refuse. */
const MAX_VALUE_BYTES = 65_536;
const MAX_NAME_BYTES = 256;
const MAX_DEPTH = 16;

export type Path = (string | number)[];

/**
 * A copy, which the caller cannot change during the call, and its strings in order. The copy omits
 * undefined properties, as JSON does.
 * @throws InvalidValueError with the path of the faulty value, never with the value
 */
export function snapshot(data: unknown): { readonly copy: Data; readonly values: string[] } {
  if (typeof data !== 'object' || data === null)
    throw refused(['data'], `must be an object or a list, not ${typeName(data)}`);
  const values: string[] = [];
  return { copy: copied(data, ['data'], values), values };
}

function copied(data: unknown, path: Path, values: string[]): Data {
  if (typeof data === 'string') {
    checkText(data, path);
    values.push(data);
    return data;
  }
  const isList = Array.isArray(data);
  if (!isList && !isPlainObject(data)) throw notAString(data, path);
  if (path.length > MAX_DEPTH) throw refused(path, `is nested deeper than ${MAX_DEPTH} levels`);
  const inside = (name: string | number, one: unknown) => {
    path.push(name);
    const copy = copied(one, path, values);
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

/**
 * A copy of `data` with every string replaced. `replace` gets the string, and whatever `twin`, an
 * answer of the same structure, has at the same path.
 */
export function rebuilt(
  data: Data,
  replace: (value: string, twin: unknown) => string,
  twin?: unknown,
): Data {
  if (typeof data === 'string') return replace(data, twin);
  const twins = (typeof twin === 'object' ? twin : null) as Record<string, unknown> | null;
  const inside = (name: string | number, one: Data) => rebuilt(one, replace, twins?.[name]);
  if (Array.isArray(data)) return data.map((one, i) => inside(i, one));
  const copy: { [name: string]: Data } = {};
  for (const [name, one] of Object.entries(data)) copy[name] = inside(name, one);
  return copy;
}

/** The path of the first occurrence of a value, for messages. */
export function pathOf(data: Data, value: string): string {
  return pathText(find(data, value, ['data']) ?? ['data']);
}

function find(data: Data, value: string, path: Path): Path | undefined {
  if (typeof data === 'string') return data === value ? path : undefined;
  for (const [name, one] of Object.entries(data)) {
    const found = find(one, value, [...path, Array.isArray(data) ? Number(name) : name]);
    if (found !== undefined) return found;
  }
  return undefined;
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

/** In the service's notation: `data.customer.emails[1]`, `data["e mail"]`. */
export function pathText([root, ...steps]: Path): string {
  const written = steps.map((step) => {
    if (typeof step === 'number') return `[${step}]`;
    return /^[A-Za-z_][\w-]*$/.test(step) ? `.${step}` : `[${JSON.stringify(step)}]`;
  });
  return `${root}${written.join('')}`;
}
