import { open, readFile, rename, rm } from 'node:fs/promises';
import { BulkError } from './bulk-error.ts';
import type { InputIdentity } from './input.ts';
import { syncFolder, writing } from './output.ts';

const VERSION = 3;

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

/** The options that must be the same when a run resumes. */
type Terms = Readonly<Record<string, string>>;

export interface Checkpoint {
  readonly terms: Terms;
  readonly input: InputIdentity;
  readonly position: Position;
  /** Bytes written to each output file, by the option that names the file. */
  readonly lengths: Readonly<Record<string, number>>;
  /** All rows are written; only the final names of the files are missing. */
  readonly is_complete: boolean;
}

export function checkpointOf(outputPath: string): string {
  return `${outputPath}.checkpoint`;
}

function nextOf(path: string): string {
  return `${path}.new`;
}

/** Replaces the file atomically: after a power cut the old or the new checkpoint is there. */
export async function writeCheckpoint(path: string, checkpoint: Checkpoint): Promise<void> {
  const next = nextOf(path);
  await writing(path, async () => {
    // Creating a new file never follows a symbolic link that somebody put there.
    await rm(next, { force: true });
    const file = await open(next, 'wx', 0o600);
    try {
      await file.writeFile(`${JSON.stringify({ version: VERSION, ...checkpoint })}\n`);
      await file.datasync();
    } finally {
      await file.close();
    }
    await rename(next, path);
  });
}

/** undefined: no checkpoint. @throws BulkError for a file that this version did not write */
export async function readCheckpoint(path: string): Promise<Checkpoint | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw new BulkError(`${path} cannot be read (${code})`);
  }
  try {
    const { version, ...checkpoint } = JSON.parse(text);
    if (version === VERSION) return checkpoint;
  } catch {
    // Reported below.
  }
  throw new BulkError(
    `${path} was not written by this version: start again, with --force instead of --resume`,
  );
}

/** @throws BulkError with the option or file that has changed */
export function checkContinues(checkpoint: Checkpoint, terms: Terms, input: InputIdentity): void {
  // A resumed run may add options that the first run did not have, such as --rejects.
  for (const [name, before] of Object.entries(checkpoint.terms)) {
    if (before === terms[name]) continue;
    throw new BulkError(
      `The run to resume used ${name} ${before}: use the same, or start again with --force instead of --resume`,
    );
  }
  const isSame = (['bytes', 'mtime_ms', 'head'] as const).every(
    (name) => checkpoint.input[name] === input[name],
  );
  if (!isSame) {
    throw new BulkError(
      'The input has changed since the run to resume: start again, with --force instead of --resume',
    );
  }
}

export async function removeCheckpoint(path: string): Promise<void> {
  await writing(path, async () => {
    await rm(path, { force: true });
    // An interrupted write may have left this file.
    await rm(nextOf(path), { force: true });
    await syncFolder(path);
  });
}
