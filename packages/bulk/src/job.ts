import { readFile, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { type FormatOptions, isPolicy } from './header.ts';
import type { Decode, Input, InputIdentity } from './input.ts';
import { lockOf, partialOf, replaceFile } from './output.ts';
import { BulkError, type Row } from './row.ts';

/**
 * Asks the service for the replacement of each value, in the field of the same index.
 * @throws RefusedValue
 */
export type Ask = (
  values: readonly string[],
  signal: AbortSignal,
  fields: readonly string[],
) => Promise<string[]>;

/**
 * Takes the rows of a block, in the order of the file, and sets `problem` of the bad ones. It may
 * begin a block before an earlier one has ended.
 */
export type Take = (rows: readonly Row[], signal: AbortSignal) => Promise<void>;

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
  /** Each field that rows may lack, and how many rows have it. */
  readonly fields: readonly (readonly [field: string, rows: number])[];
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

interface RunOptions extends FormatOptions {
  /** "-": standard input. */
  readonly inputPath: string;
  /** undefined: the input is in clear, or gzip. */
  readonly decode?: Decode | undefined;
  /** The report on bad rows; undefined: the first bad row ends the run. */
  readonly rejectsPath: string | undefined;
  /** The file that gets bad rows unchanged. */
  readonly rejectedRowsPath: string | undefined;
  readonly isResume: boolean;
  /** Whether the run may replace existing files. */
  readonly isForced: boolean;
  /** Keeps other runs from writing a file, until this process ends. @throws BulkError */
  readonly lock?: (path: string) => Promise<void>;
  /** Called after each block: values in the block, and the share of the input that is done. */
  readonly onProgress: (values: number, share: number | undefined) => void;
}

/** Writes the rows with other cells. */
export interface ReplaceJob extends RunOptions {
  readonly operation: 'tokenize' | 'detokenize';
  readonly ask: Ask;
  /** Whether cells without a suffix may be tokens. */
  readonly takesBareTokens?: boolean | undefined;
  /** "-": standard output. */
  readonly outputPath: string;
}

/** Hands the rows over, and writes only the bad ones. */
export interface TakeJob extends RunOptions {
  readonly operation: 'import';
  readonly take: Take;
  /** undefined: the run cannot be resumed. */
  readonly checkpointPath: string | undefined;
  /** Further options that a resumed run must repeat. */
  readonly terms: Terms;
}

export type Job = ReplaceJob | TakeJob;

/** The output files of a job, by the option that names the file. */
export function outputPaths(job: Job): Map<string, string> {
  const named = {
    '--output': 'take' in job ? undefined : job.outputPath,
    '--rejects': job.rejectsPath,
    '--rejected-rows': job.rejectedRowsPath,
  };
  const isFile = (one: [string, string | undefined]): one is [string, string] =>
    one[1] !== undefined && one[1] !== '-';
  return new Map(Object.entries(named).filter(isFile));
}

/** undefined: the job has none. */
export function checkpointFor(job: Job): string | undefined {
  if ('take' in job) return job.checkpointPath;
  return job.outputPath === '-' ? undefined : `${job.outputPath}.checkpoint`;
}

/** Whether a later run can resume the job: input and output must be files. */
export function isResumable(job: Job, input: Input): boolean {
  return input.identity !== undefined && checkpointFor(job) !== undefined;
}

/** The options that a resumed run must repeat. */
export function termsOf(job: Job): Terms {
  const paths = [...outputPaths(job)].filter(([option]) => option !== '--output');
  return {
    command: job.operation,
    ...('terms' in job ? job.terms : {}),
    ...(isPolicy(job.fields) ? { '--policy': job.fields.policy } : { '--fields': `${job.fields}` }),
    '--format': job.format,
    '--delimiter': job.delimiter ?? 'auto',
    '--no-header': job.hasHeader ? 'off' : 'on',
    ...Object.fromEntries(paths.map(([option, path]) => [option, resolve(path)])),
  };
}

/**
 * Checks all files before the run changes any. Returns the checkpoint to resume from, if any.
 * @throws BulkError with the file that prevents the run, and the remedy
 */
export async function checkFiles(job: Job, input: Input): Promise<Checkpoint | undefined> {
  const paths = outputPaths(job);
  await refuseSameFiles(job.inputPath, paths, checkpointFor(job));
  if (job.isResume && !isResumable(job, input))
    throw new BulkError('Only a run from a file to a file can be resumed, not a run with a pipe');
  const path = checkpointFor(job);
  for (const one of paths.values())
    if ((await statOf(one))?.isFile() === false)
      throw new BulkError(`${one} is not a file: name a different one, or - for standard output`);
  for (const [option, one] of paths)
    if ((await statOf(dirname(one))) === undefined)
      throw new BulkError(
        `${option}: the folder ${dirname(one)} does not exist: make it, or name another`,
      );
  const locked = 'take' in job && path !== undefined ? [path] : [];
  for (const one of [...locked, ...paths.values()]) await job.lock?.(one);
  const isAnew = job.isForced || path === undefined;
  const checkpoint = isAnew ? undefined : await readCheckpoint(path);
  if (job.isResume && checkpoint !== undefined) {
    checkContinues(checkpoint, termsOf(job), input.identity!);
    if (checkpoint.is_complete) return checkpoint;
  } else if (checkpoint !== undefined) {
    throw new BulkError(
      `${path} belongs to an unfinished run: continue with --resume, or start again with --force`,
    );
  }
  for (const one of paths.values())
    if (!job.isForced && (await statOf(one)) !== undefined)
      throw new BulkError(`${one} exists: name another, or replace it with --force`);
  return checkpoint;
}

/** No output, under any name that it has in a run, may be the input or another output. */
async function refuseSameFiles(
  inputPath: string,
  outputs: Map<string, string>,
  checkpoint: string | undefined,
): Promise<void> {
  const files = [['the input', inputPath]];
  const written = [
    ...outputs,
    ...(checkpoint === undefined ? [] : [['the checkpoint', checkpoint]]),
  ];
  for (const [option, path] of written as [string, string][])
    files.push(...[path, partialOf(path), lockOf(path)].map((name) => [option, name]));
  const seen = new Map<string, string>();
  for (const [option, path] of files as [string, string][]) {
    if (path === '-') continue;
    const status = await statOf(path);
    // Links give one file several names.
    const names = [resolve(path), ...(status ? [`${status.dev}:${status.ino}`] : [])];
    for (const name of names) {
      const other = seen.get(name);
      if (other !== undefined && other !== option)
        throw new BulkError(
          `${option} and ${other} are the same file, ${path}: name a different file`,
        );
      seen.set(name, option);
    }
  }
}

/** Opening a file later reports why there is no status. */
const statOf = (path: string) => stat(path).catch(() => undefined);

const VERSION = 4;

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
 * The state that an earlier run wrote with `replaceFile`; undefined: there is no such file.
 * @param isOurs whether this version can read it
 * @throws BulkError
 */
export async function readState<State>(
  path: string,
  isOurs: (state: State) => boolean,
  remedy: string,
): Promise<State | undefined> {
  const text = await readFile(path, 'utf8').catch(({ code }) => {
    if (code !== 'ENOENT') throw new BulkError(`${path} cannot be read (${code})`);
  });
  if (text === undefined) return undefined;
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
  if (!isDeepStrictEqual(checkpoint.input, input))
    throw new BulkError(`The input has changed since the run to resume: ${AGAIN}`);
}
