import { readFile } from 'node:fs/promises';
import { BulkError } from './bulk-error.ts';
import type { InputIdentity } from './input.ts';
import { replaceFile } from './output.ts';

const VERSION = 3;

/** Options that must be the same when a run resumes. */
export type Terms = Readonly<Record<string, string>>;

/** The progress of a run: all rows before this position are written. */
export interface Position {
  /** Offset of the next row in the input, after decompression. */
  readonly input_bytes: number;
  /** Line number of the next row, from 1. */
  readonly line: number;
  readonly rows: number;
  readonly values: number;
  readonly rejected: number;
  /** How many rows have each field that rows may lack. */
  readonly found: readonly number[];
  /** How many cells of each field are replaced. */
  readonly replaced: readonly (readonly [field: string, cells: number])[];
}

export interface Checkpoint {
  readonly terms: Terms;
  readonly input: InputIdentity;
  readonly position: Position;
  /** Bytes written to each output file, by the option that names the file. */
  readonly lengths: Readonly<Record<string, number>>;
  /** All rows are written; only the final names of the files are missing. */
  readonly is_complete: boolean;
}

export function writeCheckpoint(path: string, checkpoint: Checkpoint): Promise<void> {
  return replaceFile(path, `${JSON.stringify({ version: VERSION, ...checkpoint })}\n`);
}

const AGAIN = 'start again with --force instead of --resume';

/** undefined: no checkpoint. @throws BulkError for a file that this version did not write */
export function readCheckpoint(path: string): Promise<Checkpoint | undefined> {
  const isOurs = (one: { version: number }) => one.version === VERSION;
  return readState<Checkpoint & { version: number }>(path, isOurs, AGAIN);
}

/**
 * What an earlier run has written of itself with `replaceFile`; undefined: there is no such file.
 * @param isOurs whether this version can read it
 * @throws BulkError
 */
export async function readState<State>(
  path: string,
  isOurs: (state: State) => boolean,
  remedy: string,
): Promise<State | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw new BulkError(`${path} cannot be read (${code})`);
  }
  try {
    const state: State = JSON.parse(text);
    if (isOurs(state)) return state;
  } catch {
    // Reported below.
  }
  throw new BulkError(`${path} was not written by this version: ${remedy}`);
}

/**
 * A resumed run may add options that the first run did not have, such as --rejects.
 * @throws BulkError with the option that has changed
 */
export function checkTerms(before: Terms, now: Terms, remedy: string): void {
  const changed = Object.keys(before).find((name) => before[name] !== now[name]);
  if (changed !== undefined)
    throw new BulkError(
      `The run to resume used ${changed} ${before[changed]}: use the same, or ${remedy}`,
    );
}

/** @throws BulkError with the option or file that has changed */
export function checkContinues(checkpoint: Checkpoint, terms: Terms, input: InputIdentity): void {
  checkTerms(checkpoint.terms, terms, AGAIN);
  const isSame = (['bytes', 'mtime_ms', 'head'] as const).every(
    (name) => checkpoint.input[name] === input[name],
  );
  if (!isSame) throw new BulkError(`The input has changed since the run to resume: ${AGAIN}`);
}
