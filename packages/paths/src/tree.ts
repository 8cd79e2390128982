import { type ReadPath, readPath, type Steps } from '#client/path';

/** A text that is no path, or paths that exclude each other. */
export class PathError extends Error {}

/** A step of the paths. A node without further steps is a value to replace. */
export interface PathNode {
  /** The path as written, from the root. */
  readonly path: string;
  readonly names: Map<string, PathNode>;
  readonly indexes: Map<number, PathNode>;
  every: PathNode | undefined;
  isValue: boolean;
  /** Whether no row need have the value: the path ends in `?`. */
  isOptional: boolean;
}

/** The row in JSONPath: `$.email`, `$["full name"]`. */
const ROW = /\$(?:\.(?![.[])|(?=\[))/y;
/** Each row of an array. */
const ITEM = /\$\[\*\](?:\.(?![.[])|(?=\[))/y;
const SPACES = /\s*/y;
/** The option of the commands that has the paths, for messages. */
const OPTION = '--fields';

/**
 * The tree of paths such as `customer.emails[*],customer["full name"],$.phone?`.
 * @param isArray the rows are the items of an array, so a path may begin with `$[*]`
 * @throws PathError with the text that is not a path
 */
export function parsePaths(text: string, isArray = false): PathNode {
  const root = newTree();
  const roots = isArray ? [ITEM, ROW] : [ROW];
  for (let at = 0; ; at++) {
    const start = roots.reduce((from, one) => after(one, text, from), after(SPACES, text, at));
    const path = readPath(text, start);
    if (path.steps.length === 0) throw wrong(text, start, OPTION);
    at = after(SPACES, text, path.end);
    if (at < text.length && text[at] !== ',') throw wrong(text, at, OPTION);
    addSteps(root, text.slice(0, path.end), start, path, OPTION);
    if (at === text.length) return root;
  }
}

export function newTree(path = ''): PathNode {
  return {
    path,
    names: new Map(),
    indexes: new Map(),
    every: undefined,
    isValue: false,
    isOptional: false,
  };
}

/**
 * Adds the one path that the text is. A refused path changes nothing.
 * @param named what has the paths, for messages
 * @returns the node of the value
 * @throws PathError
 */
export function addPath(root: PathNode, text: string, named: string): PathNode {
  const start = after(ROW, text, 0);
  const path = readPath(text, start);
  if (path.steps.length === 0 || path.end < text.length) throw wrong(text, path.end, named);
  return addSteps(root, text, start, path, named);
}

/** The steps of a path that a tree has. */
export function stepsOf(path: string): Steps {
  return readPath(path, after(ROW, path, 0)).steps;
}

/** The nodes of all values. */
export function valueNodes(node: PathNode): PathNode[] {
  return node.isValue ? [node] : stepsFrom(node).flatMap(valueNodes);
}

function stepsFrom({ names, indexes, every }: PathNode): PathNode[] {
  return [...names.values(), ...indexes.values(), ...(every ? [every] : [])];
}

/** The offset after a text of this form; without one, the same offset. */
function after(form: RegExp, text: string, start: number): number {
  form.lastIndex = start;
  return start + (form.exec(text)?.[0].length ?? 0);
}

function addSteps(
  root: PathNode,
  text: string,
  start: number,
  { steps, ends, isOptional }: ReadPath,
  named: string,
): PathNode {
  let node = root;
  for (const [i, step] of steps.entries()) {
    if (node.isValue) throw overlap(node.path, named);
    const { every, indexes } = node;
    const path = text.slice(start, ends[i]);
    if (step === null ? indexes.size > 0 : typeof step === 'number' && every !== undefined) {
      const items = every?.path ?? path;
      throw new PathError(`${named} names ${items} and a single item there: name one of them`);
    }
    node = stepInto(node, step, path);
  }
  if (node.isValue) throw new PathError(`${named} names ${node.path} twice`);
  if (stepsFrom(node).length > 0) throw overlap(node.path, named);
  node.isValue = true;
  node.isOptional = isOptional;
  return node;
}

function stepInto(node: PathNode, step: Steps[number], path: string): PathNode {
  const nodes: Map<unknown, PathNode> = typeof step === 'number' ? node.indexes : node.names;
  const next = (step === null ? node.every : nodes.get(step)) ?? newTree(path);
  if (step === null) node.every = next;
  else nodes.set(step, next);
  return next;
}

function wrong(text: string, at: number, named: string): PathError {
  const where = at === text.length ? 'its end' : `"${text.slice(at, at + 20)}"`;
  return new PathError(
    `${named}: no path at ${where}; write paths like customer.emails[*],name or ["full name"]`,
  );
}

function overlap(path: string, named: string): PathError {
  return new PathError(`${named} names ${path} and something inside it: name one of them`);
}
