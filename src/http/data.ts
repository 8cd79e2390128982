import { isUtf8 } from 'node:buffer';
import { CallerError } from '../errors.ts';
import { mayBeMisread } from '../service/misread-names.ts';
import { type Path, pathText, Step } from './path.ts';
import {
  BYTES_A_BODY_NAME,
  BYTES_A_PART,
  FORBIDDEN_NAME,
  MAX_DEPTH,
  MAX_NAME_BYTES,
  MAX_NAMES,
  MAX_PARTS,
  MAX_VALUE_BYTES,
} from './schema.ts';

const QUOTE = 0x22;
const COLON = 0x3a;

/** A parsed JSON object. In it, `__proto__` is an own property like any other. */
export type JsonObject = Record<string, unknown>;

/** A request body, and its `data`. */
export interface ParsedBody<Data> {
  readonly text: string;
  readonly data: Data;
}

/**
 * Parses a request body. A repeated name is an error, because JSON.parse would keep only the last
 * value.
 * @throws CallerError invalid_type
 */
export function parseBody(body: Buffer): ParsedBody<JsonObject> {
  const { text, data } = parseAny(body);
  if (!isObject(data)) throw invalid('data: must be a JSON object');
  return { text, data };
}

/** Like `parseBody`, but `data` may be a list of objects, too. */
export function parseRecords(body: Buffer): ParsedBody<JsonObject | JsonObject[]> {
  const { text, data } = parseAny(body);
  if (isObject(data)) return { text, data };
  if (!Array.isArray(data)) throw invalid('data: must be a JSON object, or a list of objects');
  const wrong = data.findIndex((record) => !isObject(record));
  if (wrong !== -1) throw problem(['data', wrong], 'must be a JSON object: a record');
  return { text, data };
}

function parseAny(body: Buffer): ParsedBody<unknown> {
  const { text, json: parsed } = parseObject(body, 'a JSON object with "data"');
  if (!Object.hasOwn(parsed, 'data')) throw invalid('data: is missing');
  return { text, data: parsed.data };
}

/**
 * Parses a JSON object.
 * @param what the object, in words
 * @throws CallerError invalid_type
 */
export function parseObject(body: Buffer, what: string): { text: string; json: JsonObject } {
  if (body.length === 0) throw invalid(`body: must be ${what}, not empty`);
  // Decoding would silently replace malformed bytes.
  if (!isUtf8(body)) throw invalid('body: must be valid UTF-8');
  const text = body.toString('utf8');
  checkParts(text);
  if (mayBeMisread(text)) checkNameEnds(text);
  const json = parse(text);
  if (!isObject(json)) throw invalid(`body: must be ${what}`);
  if (countMembers(text) !== countNames(json)) {
    throw invalid('body: an object has the same field name twice; each name may occur once');
  }
  return { text, json };
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

const PART_OR_QUOTE = /["[{:]/g;

/**
 * JSON.parse takes up to 56 bytes for an object, list or name, of which one has 2 bytes in a body.
 * @throws CallerError invalid_type
 */
function checkParts(text: string): void {
  // Shorter bodies cannot have so many.
  if (text.length < MAX_PARTS) return;
  const most = Math.max(MAX_PARTS, Math.floor(text.length / BYTES_A_PART));
  let parts = 0;
  let names = 0;
  PART_OR_QUOTE.lastIndex = 0;
  while (PART_OR_QUOTE.test(text)) {
    const at = PART_OR_QUOTE.lastIndex - 1;
    if (text.charCodeAt(at) === QUOTE) {
      PART_OR_QUOTE.lastIndex = stringEnd(text, at);
      // JSON.parse refuses a string without an end.
      if (PART_OR_QUOTE.lastIndex === 0) return;
      continue;
    }
    if (text.charCodeAt(at) === COLON) names++;
    if (++parts > most)
      throw invalid(
        `body: has more than ${most} objects, lists and names; send it in several requests`,
      );
  }
  checkNames(text, names);
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

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The message of JSON.parse would quote the body.
    throw invalid('body: must be valid JSON');
  }
}

function countMembers(text: string): number {
  let members = 0;
  eachName(text, () => {
    members++;
  });
  return members;
}

/**
 * Calls back with the place of each name between its quotes, in all objects of the text. In valid
 * JSON, a string before a colon is a name. Ends at a string without an end.
 */
export function eachName(text: string, found: (start: number, end: number) => void): void {
  for (let open = text.indexOf('"'); open !== -1; ) {
    const end = stringEnd(text, open);
    if (end === 0) return;
    let next = end;
    while (isWhiteSpace(text.charCodeAt(next))) next++;
    if (text.charCodeAt(next) === COLON) found(open + 1, end - 1);
    open = text.indexOf('"', end);
  }
}

/** The offset after the closing quote of the string that opens at `open`; 0: it has none. */
export function stringEnd(text: string, open: number): number {
  let close = text.indexOf('"', open + 1);
  while (isEscaped(text, close)) close = text.indexOf('"', close + 1);
  return close + 1;
}

function isEscaped(text: string, index: number): boolean {
  let backslashes = 0;
  while (text.charCodeAt(index - 1 - backslashes) === 0x5c) backslashes++;
  return backslashes % 2 === 1;
}

function isWhiteSpace(unit: number): boolean {
  return unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09;
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
      if (fields.length === maxFields) {
        throw problem(['data'], `has more than ${maxFields} values; send them in several requests`);
      }
      checkText(child, within, name);
      fields.push({ parent, within, name, text: child });
    } else if (isObject(child) || Array.isArray(child)) {
      collect(child, new Step(within, name), strings, maxFields);
    } else {
      throw problem([...within, name], `must be a string, not ${typeName(child)}${remedy(child)}`);
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

function typeName(json: unknown): string {
  return json === null ? 'null' : `a ${typeof json}`;
}

function remedy(json: unknown): string {
  return typeof json === 'number' ? '; send it in quotes, JSON numbers lose digits' : '';
}

export function problem(path: Path, reason: string): CallerError {
  return invalid(`${pathText(path)}: ${reason}`);
}
