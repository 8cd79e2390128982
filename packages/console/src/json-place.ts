/** Where a value begins and ends in a text. */
export interface Place {
  readonly begin: number;
  readonly end: number;
}

const STEP = /^(?:\.([\w-]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\])/;

/** The steps of a path as errors have it, `data.emails[1]` or `data["e mail"]`, after its root. */
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

/** Where the value of a path is in a text that is JSON; undefined when it is not there. */
export function placeOf(text: string, steps: readonly (string | number)[]): Place | undefined {
  let at = skipSpace(text, 0);
  for (const step of steps) {
    const inside = enter(text, at, step);
    if (inside === undefined) return undefined;
    at = inside;
  }
  return { begin: at, end: skipValue(text, at) };
}

/** The number of the line, from 1. */
export function lineOf(text: string, at: number): number {
  return text.slice(0, at).split('\n').length;
}

/** Where the member or item begins in the object or array at `at`. */
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
    // Of names that are there twice, the last one counts.
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

/** Past the value at `at`; an object or array by counting what opens and closes. */
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
