import { addPath, listed, newTree, type PathNode, type Steps, stepsOf } from '#paths';
import { BulkError } from './bulk-error.ts';

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
  const [name, ...rest] = stepsOf(path);
  const column = typeof name === 'string' && rest.length === 0 ? name : path;
  return columns.includes(column) ? column : undefined;
}

type Json = string | null | Json[] | { readonly [name: string]: Json };

/**
 * A record of one value at a path of a policy: with it, a service gives the value the kind of its
 * path, and gets nothing else of a row.
 * @throws BulkError for a path with a large index
 */
export function leastRecord(path: string, value: string): { readonly [name: string]: Json } {
  const json = stepsOf(path).reduceRight<Json>((inner, step) => wrapped(inner, step, path), value);
  return json as { readonly [name: string]: Json };
}

/** What another record, such as an answer, has at the path. */
export function valueIn(record: unknown, path: string): unknown {
  return stepsOf(path).reduce<unknown>(
    (found, step) => (found as Record<string | number, unknown> | null | undefined)?.[step ?? 0],
    record,
  );
}

/** An item stands for every item. */
function wrapped(inner: Json, step: Steps[number], path: string): Json {
  if (typeof step === 'string') return { [step]: inner };
  const index = step ?? 0;
  if (index > MAX_INDEX)
    throw new BulkError(`${path} has an index over ${MAX_INDEX}: name the fields with --fields`);
  return [...new Array<null>(index).fill(null), inner];
}
