import { stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { BulkError } from './bulk-error.ts';
import { type Checkpoint, checkContinues, readCheckpoint, type Terms } from './checkpoint.ts';
import type { FormatOptions } from './header.ts';
import type { Decode, Input } from './input.ts';
import { lockOf, partialOf } from './output.ts';
import { isPolicy } from './policy-paths.ts';
import type { Replacing } from './replace.ts';
import type { Row } from './row.ts';

/**
 * Takes the rows of a block, in the order of the file, and sets `problem` of the bad ones. It may
 * begin a block before an earlier one has ended.
 */
export type Take = (rows: readonly Row[], signal: AbortSignal) => Promise<void>;

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
export interface ReplaceJob
  extends RunOptions,
    Pick<Replacing, 'operation' | 'ask' | 'takesBareTokens'> {
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
  const named: [string, string | undefined][] = [
    ['--output', 'take' in job ? undefined : job.outputPath],
    ['--rejects', job.rejectsPath],
    ['--rejected-rows', job.rejectedRowsPath],
  ];
  return new Map(
    named.filter((one): one is [string, string] => one[1] !== undefined && one[1] !== '-'),
  );
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
  for (const one of paths.values()) await refuseNoFile(one);
  for (const [option, one] of paths) await refuseNoFolder(option, dirname(one));
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
  const seen = new Map<string, string>();
  const files: [string, string][] = [['the input', inputPath]];
  for (const [option, path] of outputs)
    for (const name of [path, partialOf(path), lockOf(path)]) files.push([option, name]);
  if (checkpoint !== undefined)
    for (const name of [checkpoint, lockOf(checkpoint)]) files.push(['the checkpoint', name]);
  for (const [option, path] of files) {
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

async function refuseNoFile(path: string): Promise<void> {
  if ((await statOf(path))?.isFile() === false)
    throw new BulkError(`${path} is not a file: name a different one, or - for standard output`);
}

async function refuseNoFolder(option: string, path: string): Promise<void> {
  if ((await statOf(path)) !== undefined) return;
  throw new BulkError(`${option}: the folder ${path} does not exist: make it, or name another`);
}

async function statOf(path: string) {
  try {
    return await stat(path);
  } catch {
    // Opening the file later reports the reason.
    return undefined;
  }
}
