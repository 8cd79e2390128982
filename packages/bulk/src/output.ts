import { constants } from 'node:fs';
import { access, type FileHandle, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { BulkError, WriteError } from './bulk-error.ts';

/** Where rows go. @throws BulkError that says what to do */
export interface Output {
  write(bytes: Buffer): Promise<void>;
  /** Everything written so far is on the disk; how many bytes that is there. */
  settle(): Promise<number>;
  close(): Promise<void>;
}

const GZIP_MEMBER_BYTES = 1 << 20;
/** Windows has no such flag. */
const GO_ON = constants.O_RDWR | (constants.O_NOFOLLOW ?? 0);
const gzipped = promisify(gzip);

/** What an unfinished file is called. */
export function partialOf(path: string): string {
  return `${path}.partial`;
}

/**
 * A file under another name until it is complete. Gzip is written in members of its own, so that a
 * file that ends after any of them can be gone on with.
 */
export class OutputFile implements Output {
  readonly #path: string;
  readonly #file: FileHandle;
  readonly #isGzip: boolean;
  #length: number;
  #pieces: Buffer[] = [];
  #heldBytes = 0;

  private constructor(path: string, file: FileHandle, length: number) {
    this.#path = path;
    this.#file = file;
    this.#isGzip = path.endsWith('.gz');
    this.#length = length;
  }

  /** @param length what is there after so many bytes is cut off */
  static async open(path: string, mode: number, length: number): Promise<OutputFile> {
    const partial = partialOf(path);
    return writing(partial, async () => {
      // A new file, so that it has its mode from its first byte on.
      if (length === 0) await rm(partial, { force: true });
      const file = await open(partial, length === 0 ? 'wx' : GO_ON, mode);
      const { size } = await file.stat();
      if (size < length) {
        await file.close();
        throw new BulkError(
          `${partial} is shorter than when it was left: begin anew, with --force instead of --resume`,
        );
      }
      await file.truncate(length);
      return new OutputFile(path, file, length);
    });
  }

  async write(bytes: Buffer): Promise<void> {
    this.#pieces.push(bytes);
    this.#heldBytes += bytes.length;
    if (!this.#isGzip || this.#heldBytes >= GZIP_MEMBER_BYTES) await this.#flush();
  }

  async settle(): Promise<number> {
    await this.#flush();
    await writing(partialOf(this.#path), () => this.#file.datasync());
    return this.#length;
  }

  async close(): Promise<void> {
    await this.#file.close();
  }

  async #flush(): Promise<void> {
    if (this.#heldBytes === 0) return;
    const bytes = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces);
    const written = this.#isGzip ? await gzipped(bytes) : bytes;
    await writing(partialOf(this.#path), async () => {
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

/** Gives the complete file its name; nothing to do when it has it already. */
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

/** A new name is on the disk when its folder is. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(dirname(path));
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** Standard output, which nobody can go on with. */
export class StandardOutput implements Output {
  constructor() {
    // Each write tells of its own failure.
    process.stdout.on('error', () => {});
  }

  write(bytes: Buffer): Promise<void> {
    return writing(
      'standard output',
      () =>
        new Promise<void>((resolve, reject) => {
          process.stdout.write(bytes, (error) => (error ? reject(error) : resolve()));
        }),
    );
  }

  async settle(): Promise<number> {
    return 0;
  }

  async close(): Promise<void> {}
}

const REMEDIES: Record<string, string> = {
  ENOSPC: 'the disk is full',
  EDQUOT: 'the quota is used up',
  EPIPE: 'its reader is gone',
  EACCES: 'not allowed',
  ENOENT: 'no such folder',
  ELOOP: 'it is a symbolic link',
};

/** @throws WriteError with the name of what cannot be written */
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
