import { isUtf8 } from 'node:buffer';
import { countParts, eachName, pathText } from '#paths';
import { mayBeMisread } from '../../access/misread-names.ts';
import { CallerError } from '../../errors.ts';
import {
  BYTES_A_BODY_NAME,
  BYTES_A_PART,
  FORBIDDEN_NAME,
  MAX_DEPTH,
  MAX_NAME_BYTES,
  MAX_NAMES,
  MAX_PARTS,
  MAX_VALUE_BYTES,
} from '../schema.ts';

/** A parsed JSON object. In it, `__proto__` is an own property like any other. */
export type JsonObject = Record<string, unknown>;

/** More bytes are counted and parsed in a turn each. To parse 1 MiB can take 30 ms. */
export const MAX_TURN_BYTES = 262_144;
/** A body that may be parsed: its parts are counted. */
export type CheckedText = ReturnType<typeof checkedText>;
const WITH_DATA = 'a JSON object with "data"';

/** The `data` of a request body. @throws CallerError invalid_type */
export function parseBody(body: Buffer): JsonObject {
  return parseData(checkedText(body), false) as JsonObject;
}

/**
 * The `data` of a request body.
 * @param takesList `data` may be a list of objects, too
 * @throws CallerError invalid_type
 */
export function parseData(checked: CheckedText, takesList: boolean): JsonObject | JsonObject[] {
  const json = parseObject(checked, WITH_DATA);
  if (!Object.hasOwn(json, 'data')) throw invalid('data: is missing');
  const { data } = json;
  if (isObject(data)) return data;
  if (!takesList) throw invalid('data: must be a JSON object');
  if (!Array.isArray(data)) throw invalid('data: must be a JSON object, or a list of objects');
  const wrong = data.findIndex((record) => !isObject(record));
  if (wrong !== -1) throw problem(['data', wrong], 'must be a JSON object: a record');
  return data;
}

/**
 * @param what the object in the body, in words
 * @throws CallerError invalid_type
 */
export function checkedText(body: Buffer, what = WITH_DATA) {
  if (body.length === 0) throw invalid(`body: must be ${what}, not empty`);
  // Decoding would silently replace malformed bytes.
  if (!isUtf8(body)) throw invalid('body: must be valid UTF-8');
  const text = body.toString('utf8');
  const names = countMembers(text);
  if (mayBeMisread(text)) checkNameEnds(text);
  return { text, names, bytes: body.length };
}

/**
 * Parses a JSON object. A repeated name is an error, because JSON.parse would keep only the last
 * value.
 * @param what the object, in words
 * @throws CallerError invalid_type
 */
export function parseObject({ text, names }: CheckedText, what: string): JsonObject {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    // The message of JSON.parse would quote the body.
    throw invalid('body: must be valid JSON');
  }
  if (!isObject(json)) throw invalid(`body: must be ${what}`);
  if (names !== countNames(json)) {
    throw invalid('body: an object has the same field name twice; each name may occur once');
  }
  return json;
}

const BACKSLASH_END = /\\(?:\\|u005[Cc])$/;
const MAX_END = '\\u005c'.length;

/** @throws CallerError invalid_type for a name by which JSON.parse would misread other bodies */
function checkNameEnds(text: string): void {
  eachName(text, (start, end) => {
    if (BACKSLASH_END.test(text.slice(Math.max(start, end - MAX_END), end)))
      throw invalid(
        `body: a field name ends in a backslash, by which Node.js ${process.versions.node} would misread other names`,
      );
  });
}

/**
 * The members of all objects, if the text is JSON. JSON.parse takes up to 56 bytes for an object,
 * list or name, of which one has 2 bytes in a body.
 * @throws CallerError invalid_type
 */
function countMembers(text: string): number {
  const most = Math.max(MAX_PARTS, Math.floor(text.length / BYTES_A_PART));
  const { names, containers } = countParts(text, most);
  if (names + containers > most)
    throw invalid(
      `body: has more than ${most} objects, lists and names; send it in several requests`,
    );
  checkNames(text, names);
  return names;
}

function checkNames(text: string, count: number): void {
  const most = Math.max(MAX_NAMES, Math.floor(text.length / BYTES_A_BODY_NAME));
  if (count <= most) return;
  const names = new Set<string>();
  eachName(text, (start, end) => {
    if (names.add(text.slice(start, end)).size > most)
      throw invalid(`body: has more than ${most} different names; send it in several requests`);
  });
}

export function invalid(message: string): CallerError {
  return new CallerError('invalid_type', message);
}

export function isObject(json: unknown): json is JsonObject {
  return typeof json === 'object' && json !== null && !Array.isArray(json);
}

/**
 * Counts the names in the parsed objects. Not recursive, because JSON beside `data` may be nested
 * without bound.
 */
function countNames(json: unknown): number {
  let names = 0;
  const stack: unknown[] = [json];
  while (stack.length > 0) {
    const top = stack.pop();
    // A copy of the values would take as long as JSON.parse.
    if (Array.isArray(top)) {
      for (const one of top) if (typeof one === 'object') stack.push(one);
      continue;
    }
    for (const name in top as object) {
      names++;
      const one = (top as JsonObject)[name];
      if (typeof one === 'object') stack.push(one);
    }
  }
  return names;
}

/** A path in a body, from `data` on. */
type Path = Iterable<string | number>;

/** The end of a path. The paths of all places in one object or list share the steps to it. */
export class Step implements Path {
  readonly up: Step | undefined;
  readonly name: string | number;
  /** How many steps the path has. */
  readonly depth: number;

  constructor(up: Step | undefined, name: string | number) {
    this.up = up;
    this.name = name;
    this.depth = (up?.depth ?? 0) + 1;
  }

  *[Symbol.iterator](): Generator<string | number> {
    if (this.up !== undefined) yield* this.up;
    yield this.name;
  }
}

/** A string inside `data`, and the place where its replacement goes. */
export interface Field {
  readonly parent: JsonObject | unknown[];
  /** The step to `parent`. */
  readonly within: Step;
  readonly name: string | number;
  readonly text: string;
}

/** All strings inside `data`. */
export interface Strings {
  readonly fields: Field[];
  /** Whether JSON.parse moved names: those like "10" come before all others. */
  isReordered: boolean;
}

/** The names that JSON.parse moves, and a few more. */
const NUMBER = /^\d+$/;

/**
 * Collects all strings inside `data`, down to MAX_DEPTH.
 * @throws CallerError invalid_type that names the path of the problem, never the value
 */
export function collectFields(data: JsonObject, maxFields: number): Strings {
  const strings: Strings = { fields: [], isReordered: false };
  collect(data, new Step(undefined, 'data'), strings, maxFields);
  return strings;
}

/** Puts the replacements into the places of the fields. */
export function replaceFields(
  fields: readonly Field[],
  replacements: readonly (string | null)[],
): void {
  fields.forEach(({ parent, name }, i) => {
    (parent as Record<string | number, unknown>)[name] = replacements[i];
  });
}

/** The parts of a JSON text before, between and after its strings, all of which are blank. */
export function aroundBlanks(json: string): string[] {
  // Two quotes in a row are a blank string. At the end of a name, a colon follows them.
  return json.split(/(?<=")(?="(?!:))/);
}

function collect(
  parent: JsonObject | unknown[],
  within: Step,
  strings: Strings,
  maxFields: number,
): void {
  const { fields } = strings;
  if (within.depth > MAX_DEPTH) throw problem(within, `is nested deeper than ${MAX_DEPTH} levels`);
  const isArray = Array.isArray(parent);
  const keys = Object.keys(parent);
  // Such names come first, so one look at each object is enough.
  if (!isArray && keys.length > 1 && NUMBER.test(keys[0]!)) strings.isReordered = true;
  for (const key of keys) {
    const name = isArray ? Number(key) : key;
    if (!isArray) checkName(key, within);
    const child = (parent as JsonObject)[key];
    if (typeof child === 'string') {
      if (fields.length === maxFields) throw tooManyValues(maxFields);
      checkText(child, within, name);
      fields.push({ parent, within, name, text: child });
    } else if (isObject(child) || Array.isArray(child)) {
      collect(child, new Step(within, name), strings, maxFields);
    } else {
      throw noString([...within, name], child);
    }
  }
}

export function checkName(name: string, path: Path): void {
  if (name === FORBIDDEN_NAME)
    throw problem(path, `has a field named ${FORBIDDEN_NAME}, which is not allowed`);
  if (name.length * 3 > MAX_NAME_BYTES && Buffer.byteLength(name) > MAX_NAME_BYTES) {
    throw problem(path, `has a field name longer than ${MAX_NAME_BYTES} bytes`);
  }
  if (!name.isWellFormed()) throw problem(path, 'has a field name that is not well-formed Unicode');
}

/** @throws CallerError invalid_type when no value can be this text */
export function checkText(text: string, path: Path, ...names: (string | number)[]): void {
  if (!text.isWellFormed()) {
    throw problem(
      [...path, ...names],
      'must be well-formed Unicode; it has half of a surrogate pair',
    );
  }
  if (text.length * 3 > MAX_VALUE_BYTES && Buffer.byteLength(text) > MAX_VALUE_BYTES) {
    throw problem([...path, ...names], `must not be longer than ${MAX_VALUE_BYTES} bytes`);
  }
}

export function tooManyValues(most: number): CallerError {
  return problem(['data'], `has more than ${most} values; send them in several requests`);
}

/** Called with what is neither a string nor an object or list. */
function noString(path: Path, json: unknown): CallerError {
  const remedy = typeof json === 'number' ? '; send it in quotes, JSON numbers lose digits' : '';
  const type = json === null ? 'null' : `a ${typeof json}`;
  return problem(path, `must be a string, not ${type}${remedy}`);
}

export function problem(path: Path, reason: string): CallerError {
  return invalid(`${pathText(path)}: ${reason}`);
}
