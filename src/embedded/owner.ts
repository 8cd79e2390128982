import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** File in the database folder: the id of the process that opened it last. */
const OWNER = 'standin-owner';
/** File in DATA_DIR: a process found that another process had opened its database. */
const OPENED_TWICE = 'opened-twice';

/** The folder of the embedded database in a data directory. */
export function databaseFolder(dataDir: string): string {
  return join(dataDir, 'postgres');
}

/** Whether the data directory has a database. A folder that cannot be read counts as having one. */
export function hasDatabase(dataDir: string): boolean {
  try {
    statSync(databaseFolder(dataDir));
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ENOENT';
  }
}

/** Detects that another process has replaced the database folder or the socket. */
export class Owner {
  readonly #dataDir: string;
  readonly #id = crypto.randomUUID();
  /** Paths, and their inodes when this process took them. */
  readonly #own: readonly (readonly [string, number])[];

  constructor(dataDir: string, socket: string) {
    this.#dataDir = dataDir;
    const paths = [socket, databaseFolder(dataDir)];
    this.#own = paths.map((path) => [path, statSync(path).ino]);
    writeFileSync(this.#ownerFile(), this.#id, { mode: 0o600 });
  }

  /** Runs before every statement: two calls of stat(2), 3 us each. */
  isOwner(): boolean {
    return this.#own.every(([path, ino]) => statSync(path, { throwIfNoEntry: false })?.ino === ino);
  }

  /**
   * Call it when `isOwner` is false. Leaves a mark when another process has opened the database.
   */
  noteLoss(): void {
    if (!existsSync(this.#ownerFile())) return;
    if (readFileSync(this.#ownerFile(), 'utf8') === this.#id) return;
    writeFileSync(join(this.#dataDir, OPENED_TWICE), `${new Date().toISOString()}\n`, {
      mode: 0o600,
    });
  }

  #ownerFile(): string {
    return join(databaseFolder(this.#dataDir), OWNER);
  }
}

/** The warning for the operator after two processes had the database open at the same time. */
export function openedTwice(dataDir: string): string | undefined {
  const mark = join(dataDir, OPENED_TWICE);
  if (!existsSync(mark)) return undefined;
  const when = readFileSync(mark, 'utf8').trim();
  return `Two processes had the embedded database in ${dataDir} open at the same time (noticed ${when}). This can happen on a file system that two machines share. Tokens can be missing, even if every record opens. Compare with a backup, then remove ${mark}.`;
}
