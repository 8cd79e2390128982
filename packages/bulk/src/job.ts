import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { BulkError } from './bulk-error.ts';
import { type Checkpoint, checkContinues, checkpointOf, readCheckpoint } from './checkpoint.ts';
import type { FormatOptions } from './header.ts';
import type { Input } from './input.ts';
import { partialOf } from './output.ts';
import type { Ask } from './replace.ts';

/** What a run is to do. */
export interface Job extends FormatOptions {
  readonly operation: 'tokenize' | 'detokenize';
  /** "-": standard input. */
  readonly inputPath: string;
  /** "-": standard output. */
  readonly outputPath: string;
  /** Where bad rows are told; undefined: the first one ends the run. */
  readonly rejectsPath: string | undefined;
  /** Where bad rows go as they are. */
  readonly rejectedRowsPath: string | undefined;
  readonly isResume: boolean;
  /** Files that are in the way may be replaced. */
  readonly isForced: boolean;
  readonly ask: Ask;
  /** After each block: how many values it had, and which share of the input is read. */
  readonly onProgress: (values: number, share: number | undefined) => void;
}

/** The files that a job writes, by the option that names them. */
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

/** Whether the job can be gone on with when it ends early: both ends are files. */
export function isResumable(job: Job, input: Input): boolean {
  return input.identity !== undefined && job.outputPath !== '-';
}

/** What a run that goes on with another must have in common with it. */
export function termsOf(job: Job): Record<string, string> {
  const paths = [...outputPaths(job)].filter(([option]) => option !== '--output');
  return {
    command: job.operation,
    '--fields': job.fields,
    '--format': job.format,
    '--delimiter': job.delimiter ?? 'auto',
    '--no-header': job.hasHeader ? 'off' : 'on',
    ...Object.fromEntries(paths.map(([option, path]) => [option, resolve(path)])),
  };
}

/**
 * Looks at all files before any is touched. The checkpoint to go on from, if any.
 * @throws BulkError that says which file is in the way, and what to do
 */
export async function checkFiles(job: Job, input: Input): Promise<Checkpoint | undefined> {
  const paths = outputPaths(job);
  await refuseSameFiles(job.inputPath, paths);
  if (job.isResume && !isResumable(job, input))
    throw new BulkError('Only a run from a file to a file can be resumed, not one with a pipe');
  const path = checkpointOf(job.outputPath);
  const isAnew = job.isForced || job.outputPath === '-';
  const checkpoint = isAnew ? undefined : await readCheckpoint(path);
  if (job.isResume && checkpoint !== undefined) {
    checkContinues(checkpoint, termsOf(job), input.identity!);
    if (checkpoint.is_complete) return checkpoint;
  } else if (checkpoint !== undefined) {
    throw new BulkError(
      `${path} is of a run that did not end: go on with --resume, or begin anew with --force`,
    );
  }
  for (const one of paths.values()) await refuseExisting(one, job.isForced);
  return checkpoint;
}

/** Whatever is written, under its name or before it has it, must be no file that is read. */
async function refuseSameFiles(inputPath: string, outputs: Map<string, string>): Promise<void> {
  const seen = new Map<string, string>();
  const files: [string, string][] = [['the input', inputPath]];
  for (const [option, path] of outputs) files.push([option, path], [option, partialOf(path)]);
  const outputPath = outputs.get('--output');
  if (outputPath !== undefined) files.push(['the checkpoint', checkpointOf(outputPath)]);
  for (const [option, path] of files) {
    if (path === '-') continue;
    const status = await statOf(path);
    // By links, one file has several names.
    const names = [resolve(path), ...(status ? [`${status.dev}:${status.ino}`] : [])];
    for (const name of names) {
      const other = seen.get(name);
      if (other !== undefined && other !== option)
        throw new BulkError(`${option} and ${other} are the same file, ${path}: name another`);
      seen.set(name, option);
    }
  }
}

async function refuseExisting(path: string, isForced: boolean): Promise<void> {
  const status = await statOf(path);
  if (status === undefined) return;
  if (!status.isFile())
    throw new BulkError(`${path} is not a file: name another, or - for standard output`);
  if (!isForced) throw new BulkError(`${path} exists: name another, or replace it with --force`);
}

async function statOf(path: string) {
  try {
    return await stat(path);
  } catch {
    // Whatever keeps it from being read will be said when it is opened.
    return undefined;
  }
}
