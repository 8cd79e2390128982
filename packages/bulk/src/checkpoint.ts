import { open, readFile, rename, rm } from 'node:fs/promises';
import { BulkError } from './bulk-error.ts';
import type { InputIdentity } from './input.ts';
import { syncFolder, writing } from './output.ts';

const VERSION = 1;

/** How far a run is: all rows before this are written. */
export interface Position {
  /** Of the next row in the bytes of the input, out of gzip. */
  readonly input_bytes: number;
  /** Of the next row, from 1. */
  readonly line: number;
  readonly rows: number;
  readonly values: number;
  readonly rejected: number;
}

/** What a run must not change when it goes on. */
export type Terms = Readonly<Record<string, string>>;

export interface Checkpoint {
  readonly terms: Terms;
  readonly input: InputIdentity;
  readonly position: Position;
  /** Bytes of each file that is written, by the option that names it. */
  readonly lengths: Readonly<Record<string, number>>;
  /** Only the files have not got their names yet. */
  readonly is_complete: boolean;
}

export function checkpointOf(outputPath: string): string {
  return `${outputPath}.checkpoint`;
}

function nextOf(path: string): string {
  return `${path}.new`;
}

/** Replaces the file at once, and after a power cut too it is the old or the new one. */
export async function writeCheckpoint(path: string, checkpoint: Checkpoint): Promise<void> {
  const next = nextOf(path);
  await writing(path, async () => {
    // A new file: a link that somebody put there is not followed.
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

/** undefined: there is none. @throws BulkError when it is not one of this program */
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
    // Said below.
  }
  throw new BulkError(
    `${path} was not written by this version: begin anew, with --force instead of --resume`,
  );
}

/** @throws BulkError that names what is not as it was */
export function checkContinues(checkpoint: Checkpoint, terms: Terms, input: InputIdentity): void {
  // What it did not have, such as --rejects, may come new.
  for (const [name, before] of Object.entries(checkpoint.terms)) {
    if (before === terms[name]) continue;
    throw new BulkError(
      `The run to resume was begun with ${name} ${before}: repeat that, or begin anew with --force instead of --resume`,
    );
  }
  const isSame = (['bytes', 'mtime_ms', 'head'] as const).every(
    (name) => checkpoint.input[name] === input[name],
  );
  if (!isSame) {
    throw new BulkError(
      'The input has changed since the run to resume: begin anew, with --force instead of --resume',
    );
  }
}

export async function removeCheckpoint(path: string): Promise<void> {
  await writing(path, async () => {
    await rm(path, { force: true });
    // Of a write that was cut short.
    await rm(nextOf(path), { force: true });
    await syncFolder(path);
  });
}
