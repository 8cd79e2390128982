import { eachName, isObject, type JsonObject } from './data.ts';

/** The names of each object in `data`, in the order of the body. */
export type NameOrder = ReadonlyMap<object, readonly string[]>;

/** With it, no name looks like a number. */
const MARK = ' ';

/**
 * Reads the order of names from a body that JSON.parse has checked. JSON.parse moves names like
 * "10" before all others, so this parses the body again, with a mark before each name.
 */
export function nameOrder(body: Buffer, data: JsonObject): NameOrder {
  const marked = JSON.parse(withMarks(body.toString('utf8')));
  const order = new Map<object, readonly string[]>();
  note(data, marked[`${MARK}data`], order);
  return order;
}

function withMarks(text: string): string {
  let marked = '';
  let from = 0;
  eachName(text, (start) => {
    marked += text.slice(from, start) + MARK;
    from = start;
  });
  return marked + text.slice(from);
}

/** Recursive, because `data` is at most MAX_DEPTH levels deep. */
function note(json: unknown, marked: unknown, order: Map<object, readonly string[]>): void {
  if (Array.isArray(json)) {
    for (const [i, inner] of json.entries()) note(inner, (marked as unknown[])[i], order);
  } else if (isObject(json)) {
    const names = Object.keys(marked as JsonObject).map((name) => name.slice(MARK.length));
    order.set(json, names);
    for (const name of names) note(json[name], (marked as JsonObject)[MARK + name], order);
  }
}

/** @param order undefined: that of Object.keys */
export function jsonText(data: JsonObject, order: NameOrder | undefined): string {
  if (order === undefined) return JSON.stringify(data);
  return [...jsonParts(data, JSON.stringify, order)].join('');
}

/** Yields the JSON of `data` in small parts. */
export function* jsonParts(
  json: unknown,
  write: (value: string | null) => string,
  order: NameOrder | undefined,
): Generator<string> {
  if (Array.isArray(json)) {
    for (const [i, inner] of json.entries()) {
      yield i === 0 ? '[' : ',';
      yield* jsonParts(inner, write, order);
    }
    yield json.length === 0 ? '[]' : ']';
  } else if (isObject(json)) {
    const names = order?.get(json) ?? Object.keys(json);
    for (const [i, name] of names.entries()) {
      yield `${i === 0 ? '{' : ','}${JSON.stringify(name)}:`;
      yield* jsonParts(json[name], write, order);
    }
    yield names.length === 0 ? '{}' : '}';
  } else yield write(json as string | null);
}
