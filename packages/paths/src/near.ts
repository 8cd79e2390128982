/** Longer lists of fields are cut off in a message. */
const MAX_SHOWN = 500;
/** Most letters that a misspelt name has wrong. */
export const MAX_WRONG = 2;
/** Longer names are not compared: a document has room for thousands of them. */
const MAX_COMPARED = 64;

/** The fields of a file, for a message. */
export function listed(fields: readonly string[]): string {
  const text = fields.map(shownField).join(', ');
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}...` : text;
}

/** A field in quotation marks if it has spaces at its ends, commas or quotation marks. */
export function shownField(field: string): string {
  const text = /^\s|\s$|[,"]/.test(field) ? JSON.stringify(field) : field;
  return text.replaceAll(/\p{Cc}/gu, '?');
}

/** A field and, in brackets, the field that was probably meant. */
export function suggested(field: string, fields: readonly string[]): string {
  const near = nearest(field, fields);
  return near === undefined ? field : `${field} (did you mean ${listed([near])}?)`;
}

/** The field that was probably meant; undefined: none is near. */
export function nearest(field: string, fields: readonly string[]): string | undefined {
  if (field.length > MAX_COMPARED) return undefined;
  const plain = (name: string) => name.trim().toLowerCase();
  const wanted = plain(field);
  return fields
    .map((name) => ({ name, wrong: distance(wanted, plain(name)) }))
    .filter(({ wrong }) => wrong <= MAX_WRONG && wrong < field.length / 2)
    .toSorted((a, b) => a.wrong - b.wrong || distance(field, a.name) - distance(field, b.name))[0]
    ?.name;
}

/**
 * How many letters must change, be added, left out or change places with the next one: the optimal
 * string alignment. More than MAX_WRONG: Infinity.
 */
export function distance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > MAX_WRONG) return Infinity;
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 0; i < a.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) {
      const isSwap = i > 0 && j > 0 && a[i] === b[j - 1] && a[i - 1] === b[j];
      const swapped = isSwap ? before[j - 1]! + 1 : Infinity;
      const changed = row[j]! + (a[i] === b[j] ? 0 : 1);
      next.push(Math.min(swapped, changed, row[j + 1]! + 1, next[j]! + 1));
    }
    if (Math.min(...next) > MAX_WRONG) return Infinity;
    [before, row] = [row, next];
  }
  return row[b.length]!;
}
