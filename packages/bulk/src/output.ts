import { constants } from 'node:fs';
import { access, type FileHandle, open, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { BulkError, WriteError } from './row.ts';

const GZIP_MEMBER_BYTES = 1 << 20;
/** Windows has no O_NOFOLLOW, and its undefined counts as 0. */
const GO_ON = constants.O_RDWR | constants.O_NOFOLLOW;
const gzipped = promisify(gzip);

/** The name of an unfinished file. */
export function partialOf(path: string): string {
  return `${path}.partial`;
}

/** The name of the file whose lock the run that writes has: see Job.lock. */
export function lockOf(path: string): string {
  return `${path}.lock`;
}

/**
 * A file that has a partial name until it is complete. Gzip output consists of independent members,
 * so that a run can resume after any of them.
 */
export class OutputFile {
  readonly #partial: string;
  readonly #file: FileHandle;
  readonly #isGzip: boolean;
  #length: number;
  #pieces: Buffer[] = [];
  #heldBytes = 0;

  private constructor(path: string, file: FileHandle, length: number) {
    this.#partial = partialOf(path);
    this.#file = file;
    this.#isGzip = path.endsWith('.gz');
    this.#length = length;
  }

  /** @param length bytes to keep of an existing file; the rest is cut off */
  static async open(path: string, mode: number, length: number): Promise<OutputFile> {
    const partial = partialOf(path);
    return writing(partial, async () => {
      // A new file has the right mode from its first byte.
      if (length === 0) await rm(partial, { force: true });
      const file = await open(partial, length === 0 ? 'wx' : GO_ON, mode);
      try {
        if ((await file.stat()).size < length)
          throw new BulkError(
            `${partial} is shorter than the run left it: start again, with --force instead of --resume`,
          );
        await file.truncate(length);
      } catch (error) {
        await file.close();
        throw error;
      }
      return new OutputFile(path, file, length);
    });
  }

  async write(bytes: Buffer): Promise<void> {
    this.#pieces.push(bytes);
    this.#heldBytes += bytes.length;
    if (!this.#isGzip || this.#heldBytes >= GZIP_MEMBER_BYTES) await this.#flush();
  }

  /**
   * Syncs all written bytes to the disk. Returns the length of the file.
   * @throws BulkError when another process has replaced or changed the file
   */
  async flush(): Promise<number> {
    await this.#flush();
    return writing(this.#partial, async () => {
      await this.#file.datasync();
      const own = await this.#file.stat();
      const named = await stat(this.#partial).catch(() => undefined);
      if (named?.ino === own.ino && own.size === this.#length) return this.#length;
      throw new BulkError(
        `${this.#partial} is not as this run wrote it: another process has replaced or changed it. Start again with --force`,
      );
    });
  }

  async close(): Promise<void> {
    await this.#file.close();
  }

  async #flush(): Promise<void> {
    if (this.#heldBytes === 0) return;
    const bytes = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces);
    const written = this.#isGzip ? await gzipped(bytes) : bytes;
    await writing(this.#partial, async () => {
      for (let at = 0; at < written.length; ) {
        const left = written.length - at;
        const { bytesWritten } = await this.#file.write(written, at, left, this.#length + at);
        at += bytesWritten;
      }
    });
    this.#length += written.length;
    this.#pieces = [];
    this.#heldBytes = 0;
  }
}

/** Gives the complete file its final name. Does nothing if the file has that name already. */
export async function nameAtLast(path: string): Promise<void> {
  await writing(path, async () => {
    try {
      await rename(partialOf(path), path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      await access(path);
    }
    await syncFolder(path);
  });
}

/** The name of a file that is to replace this one. */
function nextOf(path: string): string {
  return `${path}.new`;
}

/** Replaces a private file atomically: after a power cut the old or the new one is there. */
export async function replaceFile(path: string, text: string): Promise<void> {
  const next = nextOf(path);
  await writing(path, async () => {
    // Creating a new file never follows a symbolic link that somebody put there.
    await rm(next, { force: true });
    await writeFile(next, text, { mode: 0o600, flag: 'wx', flush: true });
    await rename(next, path);
    await syncFolder(path);
  });
}

/** Removes a file that `replaceFile` wrote, and what an interrupted write left. */
export async function removeReplaced(path: string): Promise<void> {
  await writing(path, async () => {
    await rm(path, { force: true });
    await rm(nextOf(path), { force: true });
    await syncFolder(path);
  });
}

/** Makes a rename durable: the name of a file is in its folder. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(dirname(path));
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** Most bytes that wait for a field to occur. */
const MAX_HELD_BYTES = 8 << 20;

/** Standard output. No run can resume it. Its rows wait until every field was found. */
export class StandardOutput {
  #held: Buffer[] | undefined = [];
  #heldBytes = 0;

  constructor() {
    // Each write reports its own failure. Without a listener, this event would end the process.
    process.stdout.on('error', () => {});
  }

  async write(bytes: Buffer): Promise<void> {
    if (this.#held === undefined) return print(bytes);
    this.#held.push(bytes);
    this.#heldBytes += bytes.length;
  }

  /** Whether the rows that wait are too many. */
  get isFull(): boolean {
    return this.#heldBytes > MAX_HELD_BYTES;
  }

  /** Lets all rows out: every field was found. */
  async release(): Promise<void> {
    const held = this.#held;
    this.#held = undefined;
    if (held !== undefined) await print(Buffer.concat(held));
  }

  async flush(): Promise<number> {
    return 0;
  }

  async close(): Promise<void> {}
}

function print(bytes: Buffer): Promise<void> {
  const work = (done: (error?: Error | null) => void) => process.stdout.write(bytes, done);
  return writing('standard output', promisify(work));
}

const REMEDIES: Record<string, string> = {
  ENOSPC: 'the disk is full',
  EDQUOT: 'the quota is used up',
  EPIPE: 'the reader is gone',
  EACCES: 'not allowed',
  ENOENT: 'no such folder',
  ELOOP: 'it is a symbolic link',
};

/** @throws WriteError with the name of the file or stream */
export async function writing<T>(name: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (!/^E[A-Z0-9]+$/.test(code)) throw error;
    const why = REMEDIES[code] === undefined ? code : `${REMEDIES[code]}, ${code}`;
    throw new WriteError(`${name} cannot be written (${why})`);
  }
}
