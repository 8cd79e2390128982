import { InvalidValueError } from './errors.ts';
import { type ReadPath, readPath, type Steps, stepText } from './path.ts';

/** Ends data that has itself inside. */
const MAX_DEPTH = 200;

type Holder = Record<string | number, unknown>;

/** A place in a copy of the caller's data. */
export interface JsonPlace {
  readonly holder: Holder;
  readonly name: string | number;
  /** The place of the holder; undefined: this is the place of all data. */
  readonly parent?: JsonPlace;
}

export function rootOf(data: unknown): JsonPlace {
  return { holder: { data }, name: 'data' };
}

/** The place of a member of what is at `parent`. */
export function placeIn(parent: JsonPlace, name: string | number): JsonPlace {
  return { holder: valueAt(parent) as Holder, name, parent };
}

export function valueAt({ holder, name }: JsonPlace): unknown {
  return Object.hasOwn(holder, name) ? holder[name] : undefined;
}

/** In the service's notation: `data.customer.emails[1]`, `data["e mail"]`. */
export function pathTo({ name, parent }: JsonPlace): string {
  return parent === undefined ? String(name) : pathTo(parent) + stepText(name);
}

/** The member of an answer, which may be anything. */
export function memberOf(answer: unknown, name: string | number): unknown {
  return typeof answer === 'object' && answer !== null ? (answer as Holder)[name] : undefined;
}

/** The part of a response to the data at `top` that is at a place inside. */
export function answerAt(place: JsonPlace, top: JsonPlace, answer: unknown): unknown {
  return place === top ? answer : memberOf(answerAt(place.parent!, top, answer), place.name);
}

/**
 * Copies what is at the place, so that the caller cannot change it during the call. The copy omits
 * undefined properties, as JSON does.
 * @returns the places of all that is neither a list nor an object, in order
 * @throws InvalidValueError for what JSON would change
 */
export function copyAt(place: JsonPlace, found: JsonPlace[] = [], depth = 1): JsonPlace[] {
  const given = valueAt(place);
  if (isScalar(given)) found.push(place);
  else {
    if (depth > MAX_DEPTH) throw refused(place, `is nested deeper than ${MAX_DEPTH} levels`);
    const copy = shallowCopy(given);
    if (copy === undefined)
      throw refused(place, `must be JSON, not ${typeName(given)}; convert it, or leave it out`);
    place.holder[place.name] = copy;
    for (const name of Array.isArray(copy) ? copy.keys() : Object.keys(copy))
      copyAt(placeIn(place, name), found, depth + 1);
  }
  return found;
}

function shallowCopy(given: unknown): object | undefined {
  // Array.map would skip the holes of a sparse list.
  if (Array.isArray(given)) return Array.from(given);
  if (!isPlainObject(given)) return undefined;
  // With `copy[name] = one`, the name __proto__ would be lost.
  return Object.fromEntries(Object.entries(given).filter(([, one]) => one !== undefined));
}

function isScalar(data: unknown): boolean {
  if (typeof data === 'number') return Number.isFinite(data);
  return data === null || ['string', 'boolean', 'bigint'].includes(typeof data);
}

/**
 * A bigint becomes 0: for the service only its type counts, and the answer gets the bigint of the
 * copy.
 */
export function jsonOf(copy: unknown): string {
  if (typeof copy === 'string') return JSON.stringify(copy);
  return JSON.stringify(copy, function (this: Record<string, unknown>, name, one) {
    // A program may have given bigints a toJSON, which was called before.
    return typeof this[name] === 'bigint' ? 0 : one;
  });
}

/** False for instances of classes such as Date or Map, which JSON would alter. Any realm. */
export function isPlainObject(data: unknown): data is object {
  if (typeof data !== 'object' || data === null) return false;
  const prototype = Object.getPrototypeOf(data);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

export function typeName(data: unknown): string {
  if (data === undefined) return 'undefined';
  if (typeof data !== 'object') return Number.isNaN(data) ? 'NaN' : `a ${typeof data}`;
  return `an instance of ${Object.getPrototypeOf(data)?.constructor?.name || 'a class'}`;
}

export function refused(at: JsonPlace | string, reason: string): InvalidValueError {
  const path = typeof at === 'string' ? at : pathTo(at);
  return new InvalidValueError(path, reason, { code: 'invalid_type', attempts: 0 });
}

type Field = Pick<ReadPath, 'steps' | 'isOptional'>;

/** @throws TypeError for a text that is no path */
function parseField(text: unknown): Field {
  if (typeof text !== 'string') throw new TypeError('fields: must be a list of paths');
  const path = readPath(text);
  if (path.steps.length > 0 && path.end === text.length) return path;
  throw new TypeError(
    `fields: ${JSON.stringify(text)} is no path; write paths like email, customer.emails[*] or ["full name"]`,
  );
}

/**
 * The places of the strings at some paths of a record, or of each record of a list. The rest of the
 * record stays as it is: only what is around these strings is copied.
 * @throws TypeError for an invalid path; InvalidValueError with the path of the faulty value
 */
export function placesAt(root: JsonPlace, fields: readonly unknown[]): JsonPlace[] {
  if (!Array.isArray(fields) || fields.length === 0)
    throw new TypeError('fields: must be a list of at least one path');
  const inList: Steps = Array.isArray(valueAt(root)) ? [null] : [];
  const copies = new Set<unknown>();
  // Two fields may lead to one place.
  const found = new Map<string, JsonPlace>();

  const walk = (place: JsonPlace, { steps: [step, ...steps], isOptional }: Field): void => {
    const given = valueAt(place);
    if (given === null || (given === undefined && isOptional)) return;
    if (given === undefined)
      throw refused(place, 'is missing; if it may be, write a question mark after the field');
    if (step === undefined) {
      if (typeof given !== 'string')
        throw refused(place, `must be a string, not ${typeName(given)}`);
      found.set(pathTo(place), place);
      return;
    }
    const isList = typeof step !== 'string';
    if (isList !== Array.isArray(given) || !(isList || isPlainObject(given)))
      throw refused(place, `must be ${isList ? 'a list' : 'a plain object'}, as the field says`);
    if (!copies.has(given)) place.holder[place.name] = isList ? [...(given as [])] : { ...given };
    copies.add(valueAt(place));
    const names = step === null ? (given as []).keys() : [step];
    for (const name of names) walk(placeIn(place, name), { steps, isOptional });
  };

  for (const { steps, isOptional } of fields.map(parseField))
    walk(root, { steps: [...inList, ...steps], isOptional });
  return [...found.values()];
}
