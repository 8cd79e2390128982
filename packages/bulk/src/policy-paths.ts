import { BulkError } from './bulk-error.ts';
import { listed } from './fields.ts';
import { addPath, newTree, type PathNode } from './json-path.ts';

/** The fields of a policy. A file has some of them. */
export interface PolicyFields {
  /** Identifies the policy, for messages and for `--resume`. */
  readonly policy: string;
  readonly paths: readonly string[];
}

/**
 * What rows have: the text of `--fields`; names of columns or paths, each by itself; or the fields
 * of a policy.
 */
export type Fields = string | readonly string[] | PolicyFields;

export function isPolicy(fields: Fields): fields is PolicyFields {
  return typeof fields === 'object' && 'policy' in fields;
}

const OPTION = '--policy';
/** A least record has null before its item. */
const MAX_INDEX = 1_000;

/** No row has a field of the policy, so that all values would be copied in clear. */
export class NoFieldOfPolicy extends BulkError {
  /** @param sample fields of the file */
  constructor(name: string, sample: readonly string[], { policy, paths }: PolicyFields) {
    super(
      `${name} has no field of the policy (${policy}): the policy has ${listed(paths)}; the file has ${listed(sample)}. Rename its fields, or name them with --fields, which makes all of them of the kind text`,
    );
  }
}

/** The tree of all paths; no row need have any of them. */
export function treeOf({ paths }: PolicyFields): PathNode {
  const tree = newTree();
  for (const path of paths) addPath(tree, path, OPTION).at(-1)!.isOptional = true;
  return tree;
}

/** The column of a CSV file that a path stands for: one name, or the path itself. */
export function columnOf(path: string, columns: readonly string[]): string | undefined {
  const tree = newTree();
  addPath(tree, path, OPTION);
  const [first] = tree.names;
  const name = first?.[1].isValue ? first[0] : path;
  return columns.includes(name) ? name : undefined;
}

type Json = string | null | Json[] | { readonly [name: string]: Json };

/**
 * Records of one value at a path of a policy: with them, a service gives each value the kind of its
 * path, and gets nothing else of a row.
 */
export class LeastRecords {
  readonly #trees = new Map<string, PathNode>();

  /** @throws BulkError for a path with a large index */
  of(path: string, value: string): { readonly [name: string]: Json } {
    return wrapped(this.#tree(path), value) as { readonly [name: string]: Json };
  }

  /** What another record, such as an answer, has at the path. */
  valueIn(record: unknown, path: string): unknown {
    let node = this.#tree(path);
    let found = record;
    while (!node.isValue) {
      const [step, next] = onlyStep(node);
      found = (found as Record<string | number, unknown> | null | undefined)?.[step];
      node = next;
    }
    return found;
  }

  #tree(path: string): PathNode {
    let tree = this.#trees.get(path);
    if (tree === undefined) {
      tree = newTree();
      addPath(tree, path, OPTION);
      this.#trees.set(path, tree);
    }
    return tree;
  }
}

function wrapped(node: PathNode, value: string): Json {
  if (node.isValue) return value;
  const [step, next] = onlyStep(node);
  const inner = wrapped(next, value);
  if (typeof step === 'string') return { [step]: inner };
  if (step > MAX_INDEX)
    throw new BulkError(
      `${next.path} has an index over ${MAX_INDEX}: name the fields with --fields`,
    );
  return [...new Array<null>(step).fill(null), inner];
}

/** The step of a tree with one path. An item stands for every item. */
function onlyStep({ names, indexes, every }: PathNode): readonly [string | number, PathNode] {
  if (every !== undefined) return [0, every];
  return [...names, ...indexes][0]!;
}
