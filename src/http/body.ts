import { isUtf8 } from 'node:buffer';
import { CallerError } from '../errors.ts';

/** A parsed JSON object. In it, `__proto__` is an own property like any other. */
export type JsonObject = Record<string, unknown>;

/**
 * Returns the `data` object of a request body. A repeated name is an error, because JSON.parse
 * would keep only the last value.
 * @throws CallerError invalid_type
 */
export function parseData(body: Buffer): JsonObject {
  if (body.length === 0) throw invalid('body: must be a JSON object with "data", not empty');
  // Decoding would silently replace malformed bytes.
  if (!isUtf8(body)) throw invalid('body: must be valid UTF-8');
  const text = body.toString('utf8');
  const parsed = parse(text);
  if (!isObject(parsed)) throw invalid('body: must be a JSON object with "data"');
  if (countMembers(text) !== countNames(parsed)) {
    throw invalid('body: an object has the same field name twice; each name may occur once');
  }
  if (!Object.hasOwn(parsed, 'data')) throw invalid('data: is missing');
  if (!isObject(parsed.data)) throw invalid('data: must be a JSON object');
  return parsed.data;
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

/** Counts members of all objects in the text. In valid JSON, a string before a colon is a name. */
function countMembers(text: string): number {
  let members = 0;
  for (let open = text.indexOf('"'); open !== -1; ) {
    let close = text.indexOf('"', open + 1);
    while (isEscaped(text, close)) close = text.indexOf('"', close + 1);
    let next = close + 1;
    while (isWhiteSpace(text.charCodeAt(next))) next++;
    if (text.charCodeAt(next) === 0x3a) members++;
    open = text.indexOf('"', close + 1);
  }
  return members;
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
    if (typeof top !== 'object' || top === null) continue;
    const inner = Object.values(top);
    if (!Array.isArray(top)) names += inner.length;
    for (const one of inner) if (typeof one === 'object') stack.push(one);
  }
  return names;
}
