/** Names and indexes from `data` on. */
export type Steps = readonly (string | number | null)[];

/** The path at the start of a service's message: `data.emails[1]: must be a string`. */
export function pathIn(message: string): string | undefined {
  return /^(data(?:\.[\w-]+|\[\d+\]|\["(?:[^"\\]|\\.)*"\])*): /.exec(message)?.[1];
}

/** The steps after `data` in a path such as `data.emails[1]` or `data["e mail"]`. */
export function stepsOf(path: string): (string | number)[] {
  const steps = path.matchAll(/\.([\w-]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]/g);
  return [...steps].map(([, name, index, quoted]) =>
    name === undefined ? JSON.parse(index ?? quoted!) : name,
  );
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s[\]{}:,"]+/g;

/** Offsets of a value in valid JSON; undefined: the path does not exist. */
export function placeOf(text: string, steps: Steps): readonly [number, number] | undefined {
  let found: readonly [number, number] | undefined;
  /** Objects and lists. The step of an object is missing before a name. */
  const open: { begin: number; step?: string | number | undefined }[] = [];
  const take = (begin: number, end: number) => {
    // As in JSON.parse, the last of several equal names counts.
    const isIt = open.length === steps.length && open.every(({ step }, i) => step === steps[i]);
    if (isIt) found = [begin, end];
  };
  for (const { 0: token, index: begin } of text.matchAll(TOKEN)) {
    const around = open.at(-1);
    const end = begin + token.length;
    if (token === '{') open.push({ begin });
    else if (token === '[') open.push({ begin, step: 0 });
    else if (token === '}' || token === ']') take(open.pop()!.begin, end);
    else if (token === ',')
      around!.step = typeof around!.step === 'number' ? around!.step + 1 : undefined;
    else if (around && around.step === undefined) around.step = JSON.parse(token) as string;
    else if (token !== ':') take(begin, end);
  }
  return found;
}

/** Line number, from 1. */
export function lineOf(text: string, at: number): number {
  return text.slice(0, at).split('\n').length;
}
