import { stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { BulkError } from './bulk-error.ts';
import { type Checkpoint, checkContinues, checkpointOf, readCheckpoint } from './checkpoint.ts';
import type { FormatOptions } from './header.ts';
import type { Decode, Input } from './input.ts';
import { lockOf, partialOf } from './output.ts';
import type { Ask } from './replace.ts';
import type { Row } from './row.ts';

/**
 * Takes the rows of a block, in the order of the file, and sets `problem` of the bad ones. It may
 * begin a block before an earlier one has ended.
 */
export type Take = (rows: readonly Row[], signal: AbortSignal) => Promise<void>;

/** The options of a run. */
export interface Job extends FormatOptions {
  readonly operation: 'tokenize' | 'detokenize' | 'import';
  /** "-": standard input. */
  readonly inputPath: string;
  /** "-": standard output; undefined: the run writes no rows. */
  readonly outputPath: string | undefined;
  /** Of a run that writes no rows; undefined: it cannot be resumed. */
  readonly checkpointPath?: string | undefined;
  /** The report on bad rows; undefined: the first bad row ends the run. */
  readonly rejectsPath: string | undefined;
  /** The file that gets bad rows unchanged. */
  readonly rejectedRowsPath: string | undefined;
  readonly isResume: boolean;
  /** Whether the run may replace existing files. */
  readonly isForced: boolean;
  /** undefined: see `take`. */
  readonly ask: Ask | undefined;
  readonly take?: Take;
  /** undefined: the input is in clear, or gzip. */
  readonly decode?: Decode | undefined;
  /** See Replacing. */
  readonly takesBareTokens?: boolean | undefined;
  /** Further options that a resumed run must repeat. */
  readonly terms?: Readonly<Record<string, string>>;
  /** Keeps other runs from writing a file, until this process ends. @throws BulkError */
  readonly lock?: (path: string) => Promise<void>;
  /** Called after each block: values in the block, and the share of the input that is done. */
  readonly onProgress: (values: number, share: number | undefined) => void;
}

/** The output files of a job, by the option that names the file. */
export function outputPaths(job: Job): Map<string, string> {
  const named: [string, string | undefined][] = [
    ['--output', job.outputPath],
    ['--rejects', job.rejectsPath],
    ['--rejected-rows', job.rejectedRowsPath],
  ];
  return new Map(
    named.filter((one): one is [string, string] => one[1] !== undefined && one[1] !== '-'),
  );
}

/** undefined: the job has none. */
export function checkpointFor({ outputPath, checkpointPath }: Job): string | undefined {
  if (outputPath === undefined) return checkpointPath;
  return outputPath === '-' ? undefined : checkpointOf(outputPath);
}

/** Whether a later run can resume the job: input and output must be files. */
export function isResumable(job: Job, input: Input): boolean {
  return input.identity !== undefined && checkpointFor(job) !== undefined;
}

/** The options that a resumed run must repeat. */
export function termsOf(job: Job): Record<string, string> {
  const paths = [...outputPaths(job)].filter(([option]) => option !== '--output');
  return {
    command: job.operation,
    ...(typeof job.fields === 'string'
      ? { '--fields': job.fields }
      : { '--policy': job.fields.policy }),
    '--format': job.format,
    '--delimiter': job.delimiter ?? 'auto',
    '--no-header': job.hasHeader ? 'off' : 'on',
    ...job.terms,
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
  for (const one of new Set([job.outputPath ?? path, ...paths.values()]))
    if (one !== undefined && one !== '-') await job.lock?.(one);
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
