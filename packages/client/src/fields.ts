import {
  isPlainObject,
  type JsonPlace,
  pathTo,
  placeIn,
  refused,
  typeName,
  valueAt,
} from './data.ts';
import { type ReadPath, readPath, type Steps } from './path.ts';

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
