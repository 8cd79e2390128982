/** Offsets of a value in a text. */
export interface Place {
  readonly begin: number;
  readonly end: number;
}

/** The path at the start of a service's message: `data.emails[1]: must be a string`. */
export function pathIn(message: string): string | undefined {
  return /^(data(?:\.[\w-]+|\[\d+\]|\["(?:[^"\\]|\\.)*"\])*): /.exec(message)?.[1];
}

const STEP = /^(?:\.([\w-]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\])/;

/** The steps after `data` in a path such as `data.emails[1]` or `data["e mail"]`. */
export function stepsOf(path: string): (string | number)[] {
  const steps: (string | number)[] = [];
  let rest = path.replace(/^data/, '');
  for (let match = STEP.exec(rest); match !== null; match = STEP.exec(rest)) {
    const [all, name, index, quoted] = match;
    steps.push(name ?? (index === undefined ? JSON.parse(quoted!) : Number(index)));
    rest = rest.slice(all.length);
  }
  return steps;
}

/** The place of a value in valid JSON; undefined: the path does not exist. */
export function placeOf(text: string, steps: readonly (string | number)[]): Place | undefined {
  let at = skipSpace(text, 0);
  for (const step of steps) {
    const inside = enter(text, at, step);
    if (inside === undefined) return undefined;
    at = inside;
  }
  return { begin: at, end: skipValue(text, at) };
}

/** Line number, from 1. */
export function lineOf(text: string, at: number): number {
  return text.slice(0, at).split('\n').length;
}

/** The offset of a member or item in the object or array at `at`. */
function enter(text: string, at: number, step: string | number): number | undefined {
  const isObject = text[at] === '{';
  if (!isObject && text[at] !== '[') return undefined;
  let found: number | undefined;
  at = skipSpace(text, at + 1);
  for (let index = 0; text[at] !== '}' && text[at] !== ']'; index++) {
    let name: string | number = index;
    if (isObject) {
      const end = skipValue(text, at);
      name = JSON.parse(text.slice(at, end)) as string;
      at = skipSpace(text, skipSpace(text, end) + 1);
    }
    // As in JSON.parse, the last of several equal names counts.
    if (name === step) found = at;
    at = skipSpace(text, skipValue(text, at));
    if (text[at] === ',') at = skipSpace(text, at + 1);
  }
  return found;
}

function skipSpace(text: string, at: number): number {
  while (/\s/.test(text[at] ?? 'x')) at++;
  return at;
}

/** The offset after the value at `at`. Counts brackets to skip an object or array. */
function skipValue(text: string, at: number): number {
  const token = /"(?:[^"\\]|\\.)*"|[{[]|[}\]]|[^\s,:{}[\]"]+/gy;
  let depth = 0;
  do {
    token.lastIndex = at;
    const match = token.exec(text);
    if (match === null) {
      at++;
      continue;
    }
    at = token.lastIndex;
    if (/^[{[]/.test(match[0])) depth++;
    else if (/^[}\]]/.test(match[0])) depth--;
  } while (depth > 0 && at < text.length);
  return at;
}
