import { BulkError } from './bulk-error.ts';

/** A step of the paths in --fields. A node without further steps is a value to replace. */
export interface PathNode {
  /** The path as written, from the root. */
  readonly path: string;
  readonly names: Map<string, PathNode>;
  readonly indexes: Map<number, PathNode>;
  every: PathNode | undefined;
  isValue: boolean;
}

/** A name, `[0]`, `[*]` or `["a name"]`. A step, a comma or the end follows. */
const STEP =
  /(?:\.?(?<name>[^.,[\]"\s](?:[^.,[\]"]*[^.,[\]"\s])?)|\[(?:(?<index>\d{1,15})|(?<every>\*)|(?<quoted>"(?:[^"\\]|\\.)*"))\])/y;

/**
 * The tree of paths such as `customer.emails[*],customer["full name"]`.
 * @throws BulkError with the text that is not a path
 */
export function parsePaths(text: string): PathNode {
  const root = newNode('');
  for (let at = 0; ; at++) {
    at = afterSpaces(text, addPath(root, text, afterSpaces(text, at)));
    if (at === text.length) return root;
    if (text[at] !== ',') throw wrong(text, at);
  }
}

function afterSpaces(text: string, start: number): number {
  const spaces = /\s*/y;
  spaces.lastIndex = start;
  return start + spaces.exec(text)![0].length;
}

/** The offset after the path. */
function addPath(root: PathNode, text: string, start: number): number {
  let node = root;
  let at = start;
  STEP.lastIndex = at;
  for (let step = STEP.exec(text); step !== null; step = STEP.exec(text)) {
    const isDotted = step[0].startsWith('.');
    // The first name has no dot; a later name must have one.
    if (step.groups!.name !== undefined && isDotted === (at === start)) throw wrong(text, at);
    if (node.isValue) throw overlap(node.path);
    at = STEP.lastIndex;
    node = stepInto(node, step.groups!, text.slice(start, at));
  }
  if (at === start) throw wrong(text, at);
  if (node.isValue) throw new BulkError(`--fields names ${node.path} twice`);
  if (node.names.size + node.indexes.size > 0 || node.every) throw overlap(node.path);
  node.isValue = true;
  return at;
}

function stepInto(node: PathNode, groups: Record<string, string>, path: string): PathNode {
  if (groups.every !== undefined) {
    node.every ??= newNode(path);
    return node.every;
  }
  if (groups.index !== undefined) return getOrAdd(node.indexes, Number(groups.index), path);
  return getOrAdd(node.names, groups.name ?? parseName(groups.quoted!, path), path);
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
  return { path, names: new Map(), indexes: new Map(), every: undefined, isValue: false };
}

function parseName(quoted: string, path: string): string {
  try {
    return JSON.parse(quoted);
  } catch {
    throw new BulkError(`--fields: the name at the end of ${path} is not a JSON string`);
  }
}

function wrong(text: string, at: number): BulkError {
  const where = at === text.length ? 'its end' : `"${text.slice(at, at + 20)}"`;
  return new BulkError(
    `--fields: no path at ${where}; write paths like customer.emails[*],name or ["full name"]`,
  );
}

function overlap(path: string): BulkError {
  return new BulkError(`--fields names ${path} and something inside it: name one of them`);
}
