/** Names, indexes, and null for every item of a list. */
export type Steps = readonly (string | number | null)[];

export interface ReadPath {
  readonly steps: Steps;
  /** The offset after each step. */
  readonly ends: readonly number[];
  /** The path ends in `?`: the value may be missing. */
  readonly isOptional: boolean;
  /** The offset after the path. */
  readonly end: number;
}

/** A name, `[0]`, `["a name"]` or `[*]`. */
const STEP =
  /\.?([^.,[\]"?\s](?:[^.,[\]"?]*[^.,[\]"?\s])?)|\[(?:(\d{1,15})|("(?:[^"\\]|\\.)*")|\*)\]/y;

/** Reads a path such as `customer.emails[*]` as far as it goes: without steps, there is none. */
export function readPath(text: string, start = 0): ReadPath {
  const steps: (string | number | null)[] = [];
  const ends: number[] = [];
  STEP.lastIndex = start;
  for (let found = STEP.exec(text); found !== null; found = STEP.exec(text)) {
    const [step, name, index, quoted] = found;
    // The first name has no dot; a later name must have one.
    if (name !== undefined && step.startsWith('.') === (steps.length === 0)) break;
    const unquoted = quoted === undefined ? name : nameIn(quoted);
    if (unquoted === undefined && quoted !== undefined) break;
    steps.push(unquoted ?? (index === undefined ? null : Number(index)));
    ends.push(STEP.lastIndex);
  }
  const last = ends.at(-1) ?? start;
  const isOptional = steps.length > 0 && text[last] === '?';
  return { steps, ends, isOptional, end: last + Number(isOptional) };
}

/** undefined: the text is no string of JSON. */
function nameIn(quoted: string): string | undefined {
  try {
    return JSON.parse(quoted);
  } catch {
    return undefined;
  }
}

/** Writes a path as `data.customer.emails[1]`, with unusual names in quotes: `data["e mail"]`. */
export function pathText(path: Iterable<string | number>): string {
  const [root, ...steps] = path;
  return `${root}${steps.map(stepText).join('')}`;
}

export function stepText(step: string | number): string {
  if (typeof step === 'number') return `[${step}]`;
  return /^[A-Za-z_][\w-]*$/.test(step) ? `.${step}` : `[${JSON.stringify(step)}]`;
}
