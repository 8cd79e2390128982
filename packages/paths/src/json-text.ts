import type { PathNode } from './tree.ts';

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const BRACKET_OR_QUOTE = /["[\]{}]/g;

/** The text ends before the value does. */
export const INCOMPLETE = 0;

/** The offset after the closing quote of the string that opens at `open`, or INCOMPLETE. */
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

/** The offset of the first character that is no white space of JSON. */
export function skipSpace(text: string, at: number): number {
  let next = at;
  while (isSpace(text.charCodeAt(next))) next++;
  return next;
}

function isSpace(unit: number): boolean {
  return unit <= 0x20 && (unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09);
}

/**
 * The offset after the value that begins at `at`, found by brackets and quotes alone, or
 * INCOMPLETE. A number that the text ends in is complete.
 * @param found called with the place of each string, names included
 */
export function valueEnd(
  text: string,
  at: number,
  found?: (start: number, end: number) => void,
): number {
  const first = text.charCodeAt(at);
  if (first !== QUOTE && first !== OPEN_OBJECT && first !== OPEN_ARRAY) return literalEnd(text, at);
  let next = at;
  for (let depth = 0; ; ) {
    const unit = text.charCodeAt(next);
    if (unit === QUOTE) {
      const end = stringEnd(text, next);
      if (end === INCOMPLETE) return INCOMPLETE;
      found?.(next, end);
      next = end;
    } else {
      depth += unit === OPEN_OBJECT || unit === OPEN_ARRAY ? 1 : -1;
      next++;
    }
    if (depth === 0) return next;
    BRACKET_OR_QUOTE.lastIndex = next;
    if (!BRACKET_OR_QUOTE.test(text)) return INCOMPLETE;
    next = BRACKET_OR_QUOTE.lastIndex - 1;
  }
}

function literalEnd(text: string, at: number): number {
  let next = at;
  for (; next < text.length; next++) {
    const unit = text.charCodeAt(next);
    if (unit <= 0x20 || unit === COMMA || unit === CLOSE_ARRAY || unit === CLOSE_OBJECT) break;
  }
  return next;
}

/** Whether the string that ends at `end` is a name: a colon follows. */
export function isName(text: string, end: number): boolean {
  return text.charCodeAt(skipSpace(text, end)) === COLON;
}

/**
 * Calls back with the place of each name between its quotes, in all objects of the text. Ends at a
 * string without an end.
 */
export function eachName(text: string, found: (start: number, end: number) => void): void {
  for (let open = text.indexOf('"'); open !== -1; ) {
    const end = stringEnd(text, open);
    if (end === INCOMPLETE) return;
    if (isName(text, end)) found(open + 1, end - 1);
    open = text.indexOf('"', end);
  }
}

/**
 * Counts the names of a text, and its objects and lists (containers), until there are more than
 * `most`, or until a string has no end.
 */
export function countParts(text: string, most: number) {
  const parts = { names: 0, containers: 0 };
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) {
      const end = stringEnd(text, at);
      if (end === INCOMPLETE) break;
      at = end - 1;
      // In valid JSON, each colon outside a string follows a name.
    } else if (unit === COLON) parts.names++;
    else if (unit === OPEN_OBJECT || unit === OPEN_ARRAY) parts.containers++;
    else continue;
    if (parts.names + parts.containers > most) break;
  }
  return parts;
}

/**
 * Calls back with the place of each name of an object, quotes included, and where its value begins,
 * for the offset after the value. JSON.parse has checked the text.
 * @returns the offset after the object that begins at `at`
 */
export function eachMember(
  text: string,
  at: number,
  member: (start: number, end: number, value: number) => number,
): number {
  let next = skipSpace(text, at + 1);
  while (text.charCodeAt(next) !== CLOSE_OBJECT) {
    const end = stringEnd(text, next);
    const value = skipSpace(text, skipSpace(text, end) + 1);
    next = afterComma(text, member(next, end, value));
  }
  return next + 1;
}

/** Like `eachMember`, for the items of a list. */
export function eachItem(
  text: string,
  at: number,
  item: (index: number, value: number) => number,
): number {
  let next = skipSpace(text, at + 1);
  for (let i = 0; text.charCodeAt(next) !== CLOSE_ARRAY; i++)
    next = afterComma(text, item(i, next));
  return next + 1;
}

function afterComma(text: string, at: number): number {
  const next = skipSpace(text, at);
  return text.charCodeAt(next) === COMMA ? skipSpace(text, next + 1) : next;
}

export type JsonType = 'an object' | 'an array' | 'a string' | 'a number' | 'a boolean';

/**
 * Goes through a JSON text along paths, so that everything else can be copied as it is: numbers of
 * any size, and white space. JSON.parse has checked the text.
 */
export abstract class JsonWalk {
  protected readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  /** A string where the node is a value; undefined: no path leads there. */
  protected abstract string(start: number, end: number, node: PathNode | undefined): void;

  /**
   * A value that does not fit its node.
   * @returns the offset after it
   */
  protected abstract wrong(at: number, node: PathNode, type: JsonType): number;

  /**
   * A value in an object or list.
   * @param outer the node of the object or list
   * @returns the offset after the value
   */
  protected abstract inside(
    name: string | number | undefined,
    at: number,
    node: PathNode | undefined,
    outer: PathNode | undefined,
  ): number;

  /** The JSON between these offsets; undefined: it is no text. */
  protected raw(start: number, end: number): string | undefined {
    return this.text.slice(start, end);
  }

  /** The string between these offsets; undefined: it is no text. */
  protected read(start: number, end: number): string | undefined {
    const raw = this.raw(start + 1, end - 1);
    return raw?.includes('\\') ? JSON.parse(`"${raw}"`) : raw;
  }

  /** Returns the offset after the value that begins at `at`. */
  protected value(at: number, node: PathNode | undefined): number {
    const { text } = this;
    const first = text.charCodeAt(at);
    if (first === QUOTE) {
      if (node?.isValue === false) return this.wrong(at, node, 'a string');
      const end = stringEnd(text, at);
      this.string(at, end, node);
      return end;
    }
    if (first === OPEN_OBJECT) {
      if (node?.names.size === 0) return this.wrong(at, node, 'an object');
      return eachMember(text, at, (start, end, from) => {
        const name = this.read(start, end);
        return this.inside(name, from, name === undefined ? name : node?.names.get(name), node);
      });
    }
    if (first === OPEN_ARRAY) {
      if (node !== undefined && !hasItems(node)) return this.wrong(at, node, 'an array');
      return eachItem(text, at, (i, from) =>
        this.inside(i, from, node?.indexes.get(i) ?? node?.every, node),
      );
    }
    const literal = text[at];
    if (node === undefined || literal === 'n') return literalEnd(text, at);
    return this.wrong(at, node, literal === 't' || literal === 'f' ? 'a boolean' : 'a number');
  }
}

/** Whether paths lead into a list there. */
export function hasItems({ every, indexes }: PathNode): boolean {
  return every !== undefined || indexes.size > 0;
}

/** `minimum`, `exclusiveMaximum` of a JSON Schema: 2147483647 is a telephone number elsewhere. */
const BOUND = String.raw`\w{1,12}imum`;
const WHOLE_BOUND = new RegExp(`^${BOUND}$`);

/** Whether a field is the bound of a number in a JSON Schema. */
export function isSchemaBound(name: string): boolean {
  return WHOLE_BOUND.test(name);
}

const NUMBER = String.raw`-?\d[\d.eE+-]`;
/** A bound, how another string begins, or a number as long as one of a telephone. */
const LITERAL = new RegExp(String.raw`"${BOUND}"\s*:\s*${NUMBER}*|"|${NUMBER}{6,}`, 'g');

/**
 * A JSON text in which `replace` made all strings, names and long numbers. What it changes becomes
 * a string. All between them stays, byte for byte. JSON.parse has checked the text.
 */
export function replaceLiterals(
  json: string,
  replace: (text: string, isName: boolean) => string,
): string {
  let made = '';
  let from = 0;
  for (let end = 0; ; ) {
    LITERAL.lastIndex = end;
    const found = LITERAL.exec(json);
    if (found === null) return made + json.slice(from);
    const { 0: begun, index } = found;
    const isString = begun === '"';
    end = isString ? stringEnd(json, index) : index + begun.length;
    // A bound.
    if (!isString && begun.startsWith('"')) continue;
    const literal = json.slice(index, end);
    const isName = isString && json.charCodeAt(skipSpace(json, end)) === COLON;
    const text = isString ? JSON.parse(literal) : literal;
    const replaced = replace(text, isName);
    if (replaced === text) continue;
    made += json.slice(from, index) + JSON.stringify(replaced);
    from = end;
  }
}

/** An object, a list, a string. */
export const BEGINS_JSON = /^\s*[{["]/;
/** Names of fields. Numbers of cards and accounts do not have this form. */
export const IDENTIFIER = /^[$A-Za-z_-]{1,64}\d{0,4}$/;

/**
 * A text in which `replace` made all that a person can have written: of a JSON object, list or
 * string the strings, long numbers and names that are no identifiers, because their escapes would
 * hide what is in them; of any other text the whole.
 * @param admit called with each text that may be JSON, before it is parsed
 */
export function replaceText(
  text: string,
  replace: (text: string) => string,
  admit?: (json: string) => void,
): string {
  if (!BEGINS_JSON.test(text)) return replace(text);
  admit?.(text);
  if (!isJson(text)) return replace(text);
  return replaceLiterals(text, (one, isName) =>
    isName && IDENTIFIER.test(one) ? one : replaceText(one, replace, admit),
  );
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
