import { isPlainObject, mustBeString, type Path, pathText, refused } from './data.ts';

/** A name, an index, or every item of a list. */
type Step = string | number | typeof EVERY;
const EVERY: unique symbol = Symbol('every item');

/** A path of `fields`. */
interface Field {
  readonly steps: readonly Step[];
  /** The path ends in `?`: the value may be missing. */
  readonly isOptional: boolean;
}

/** A name, `[0]`, `[*]` or `["a name"]`, as in `standin tokenize --fields`. */
const STEP =
  /(?:\.?([^.,[\]"?\s](?:[^.,[\]"?]*[^.,[\]"?\s])?)|\[(?:(\d{1,15})|(\*)|("(?:[^"\\]|\\.)*"))\])/y;

/** @throws TypeError for a text that is no path */
function parseField(text: unknown): Field {
  if (typeof text !== 'string') throw new TypeError('fields: must be a list of paths');
  const steps: Step[] = [];
  let at = 0;
  STEP.lastIndex = 0;
  for (let found = STEP.exec(text); found !== null; found = STEP.exec(text)) {
    const [step, name, index, every, quoted] = found;
    // The first name has no dot; a later name must have one.
    if (name !== undefined && step.startsWith('.') === (at === 0)) break;
    at = STEP.lastIndex;
    if (name !== undefined) steps.push(name);
    else if (every !== undefined) steps.push(EVERY);
    else steps.push(index === undefined ? nameIn(quoted!, text) : Number(index));
  }
  const isOptional = text.endsWith('?');
  if (at === 0 || at + Number(isOptional) !== text.length) throw noPath(text);
  return { steps, isOptional };
}

function nameIn(quoted: string, text: string): string {
  try {
    return JSON.parse(quoted);
  } catch {
    throw noPath(text);
  }
}

function noPath(text: string): TypeError {
  return new TypeError(
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
      const all: Step[] = Array.isArray(data) ? [EVERY, ...steps] : [...steps];
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
    const inner = step === EVERY ? Array.from(given as unknown[], (_, i) => i) : [step];
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
