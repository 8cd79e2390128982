import { isPlainObject, mustBeString, type Path, refused } from './data.ts';
import { pathText, type ReadPath, readPath, type Steps } from './path.ts';

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

/** A container of the copy, which the caller does not have. */
type Holder = Record<string | number, unknown>;

interface Place {
  readonly holder: Holder;
  readonly name: string | number;
  readonly path: string;
}

/** The strings at some paths of a record, and a copy of the record to put other strings in. */
export class FieldSelection {
  readonly values: string[] = [];
  readonly #places: Place[] = [];
  readonly #root: Holder;
  readonly #copies = new Set<unknown>();
  readonly #taken = new Map<Holder, Set<string | number>>();

  /**
   * @param data a record, or a list of records that all have the fields
   * @throws TypeError for an invalid path; InvalidValueError with the path of the faulty value
   */
  constructor(data: unknown, fields: readonly unknown[]) {
    if (!Array.isArray(fields) || fields.length === 0)
      throw new TypeError('fields: must be a list of at least one path');
    this.#root = { data };
    for (const { steps, isOptional } of fields.map(parseField)) {
      const all: Steps = Array.isArray(data) ? [null, ...steps] : steps;
      this.#walk(this.#root, ['data'], { steps: all, isOptional });
    }
  }

  /** The copy with these strings in place of `values`. */
  with(texts: readonly string[]): unknown {
    this.#places.forEach(({ holder, name }, i) => {
      holder[name] = texts[i];
    });
    return this.#root.data;
  }

  /** The path in the record of a path in `values`. */
  readonly pathFor = (path: string): string | undefined =>
    this.#places[Number(/^data\[(\d+)\]$/.exec(path)?.[1])]?.path;

  /** @param path to a value of the holder; the steps lead on from there */
  #walk(holder: Holder, path: Path, { steps, isOptional }: Field): void {
    const name = path.at(-1)!;
    const given = Object.hasOwn(holder, name) ? holder[name] : undefined;
    if (given === null || (given === undefined && isOptional)) return;
    if (given === undefined)
      throw refused(path, 'is missing; if it may be, write a question mark after the field');
    const [step, ...rest] = steps;
    if (step === undefined) {
      this.#take(holder, name, path, given);
      return;
    }
    const isList = typeof step !== 'string';
    if (isList !== Array.isArray(given) || !(isList || isPlainObject(given)))
      throw refused(path, `must be ${isList ? 'a list' : 'a plain object'}, as the field says`);
    const copy = this.#copied(holder, name, given);
    const inner = step === null ? Array.from(given as unknown[], (_, i) => i) : [step];
    for (const one of inner) this.#walk(copy, [...path, one], { steps: rest, isOptional });
  }

  #take(holder: Holder, name: string | number, path: Path, given: unknown): void {
    mustBeString(given, path);
    // Two fields may lead to one place.
    const taken = this.#taken.get(holder) ?? new Set();
    if (taken.has(name)) return;
    this.#taken.set(holder, taken.add(name));
    this.values.push(given);
    this.#places.push({ holder, name, path: pathText(path) });
  }

  /** The rest of the record stays as it is: only what is around a picked value is copied. */
  #copied(holder: Holder, name: string | number, given: unknown): Holder {
    if (this.#copies.has(given)) return given as Holder;
    const copy = Array.isArray(given) ? [...given] : { ...(given as object) };
    this.#copies.add(copy);
    holder[name] = copy;
    return copy as Holder;
  }
}
