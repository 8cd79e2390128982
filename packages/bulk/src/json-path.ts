import { BulkError } from './bulk-error.ts';

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

/** A name, `[0]`, `[*]` or `["a name"]`. A step, a comma or the end follows. */
const STEP =
  /(?:\.?(?<name>[^.,[\]"?\s](?:[^.,[\]"?]*[^.,[\]"?\s])?)|\[(?:(?<index>\d{1,15})|(?<every>\*)|(?<quoted>"(?:[^"\\]|\\.)*"))\])/y;
/** The row in JSONPath: `$.email`, `$["full name"]`. */
const ROW = /\$(?:\.(?![.[])|(?=\[))/y;
/** Each row of an array. */
const ITEM = /\$\[\*\](?:\.(?![.[])|(?=\[))/y;

/**
 * The tree of paths such as `customer.emails[*],customer["full name"],$.phone?`.
 * @param isArray the rows are the items of an array, so a path may begin with `$[*]`
 * @throws BulkError with the text that is not a path
 */
export function parsePaths(text: string, isArray = false): PathNode {
  const root = newTree();
  const roots = isArray ? [ITEM, ROW] : [ROW];
  for (let at = 0; ; at++) {
    const start = roots.reduce((from, one) => after(one, text, from), after(SPACES, text, at));
    at = after(SPACES, text, addSteps(root, text, start, OPTION).end);
    if (at === text.length) return root;
    if (text[at] !== ',') throw wrong(text, at, OPTION);
  }
}

/** The option of the commands that has the paths, for messages. */
const OPTION = '--fields';

export function newTree(): PathNode {
  return newNode('');
}

/**
 * Adds the one path that the text is. A refused path changes nothing.
 * @param named what has the paths, for messages
 * @returns the nodes of the path, from the root
 * @throws BulkError
 */
export function addPath(root: PathNode, text: string, named: string): readonly PathNode[] {
  const start = after(ROW, text, 0);
  const { end } = addSteps(newTree(), text, start, named);
  if (end < text.length) throw wrong(text, end, named);
  return addSteps(root, text, start, named).nodes;
}

/** The nodes of all values. */
export function valueNodes(node: PathNode): PathNode[] {
  if (node.isValue) return [node];
  const inner = [
    ...node.names.values(),
    ...node.indexes.values(),
    ...(node.every ? [node.every] : []),
  ];
  return inner.flatMap(valueNodes);
}

const SPACES = /\s*/y;

/** The offset after a text of this form; without one, the same offset. */
function after(form: RegExp, text: string, start: number): number {
  form.lastIndex = start;
  return start + (form.exec(text)?.[0].length ?? 0);
}

/** The nodes of the path, and the offset after it. */
function addSteps(root: PathNode, text: string, start: number, named: string) {
  const nodes = [root];
  let node = root;
  let at = start;
  STEP.lastIndex = at;
  for (let step = STEP.exec(text); step !== null; step = STEP.exec(text)) {
    const isDotted = step[0].startsWith('.');
    // The first name has no dot; a later name must have one.
    if (step.groups!.name !== undefined && isDotted === (at === start))
      throw wrong(text, at, named);
    if (node.isValue) throw overlap(node.path, named);
    at = STEP.lastIndex;
    node = stepInto(node, step.groups!, text.slice(start, at), named);
    nodes.push(node);
  }
  if (at === start) throw wrong(text, at, named);
  if (node.isValue) throw new BulkError(`${named} names ${node.path} twice`);
  if (node.names.size + node.indexes.size > 0 || node.every) throw overlap(node.path, named);
  node.isValue = true;
  node.isOptional = text[at] === '?';
  return { nodes, end: node.isOptional ? at + 1 : at };
}

function stepInto(
  node: PathNode,
  groups: Record<string, string>,
  path: string,
  named: string,
): PathNode {
  if (groups.every !== undefined) {
    node.every ??= newNode(path);
    return node.every;
  }
  if (groups.index !== undefined) return getOrAdd(node.indexes, Number(groups.index), path);
  return getOrAdd(node.names, groups.name ?? parseName(groups.quoted!, path, named), path);
}

function getOrAdd<K>(nodes: Map<K, PathNode>, key: K, path: string): PathNode {
  let node = nodes.get(key);
  if (node === undefined) {
    node = newNode(path);
    nodes.set(key, node);
  }
  return node;
}

function newNode(path: string): PathNode {
  return {
    path,
    names: new Map(),
    indexes: new Map(),
    every: undefined,
    isValue: false,
    isOptional: false,
  };
}

function parseName(quoted: string, path: string, named: string): string {
  try {
    return JSON.parse(quoted);
  } catch {
    throw new BulkError(`${named}: the name at the end of ${path} is not a JSON string`);
  }
}

function wrong(text: string, at: number, named: string): BulkError {
  const where = at === text.length ? 'its end' : `"${text.slice(at, at + 20)}"`;
  return new BulkError(
    `${named}: no path at ${where}; write paths like customer.emails[*],name or ["full name"]`,
  );
}

function overlap(path: string, named: string): BulkError {
  return new BulkError(`${named} names ${path} and something inside it: name one of them`);
}
