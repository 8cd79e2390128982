import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** In the folder of the database: who opened it last. */
const OWNER = 'standin-owner';
/** In DATA_DIR, from when a process found that another had opened its database. */
const OPENED_TWICE = 'opened-twice';

/** Where the embedded server of a data directory keeps its database. */
export function databaseFolder(dataDir: string): string {
  return join(dataDir, 'postgres');
}

/** Watches that a folder, and the socket that leads to it, stay those of this process. */
export class EmbeddedOwner {
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

  /** Two calls of stat(2), 3 us each: asked before every statement. */
  isOwner(): boolean {
    return this.#own.every(([path, ino]) => statSync(path, { throwIfNoEntry: false })?.ino === ino);
  }

  /** To be called when it is not: leaves a mark where another process has opened the database. */
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

/** What an operator must know when two processes had the database open at once. */
export function openedTwice(dataDir: string): string | undefined {
  const mark = join(dataDir, OPENED_TWICE);
  if (!existsSync(mark)) return undefined;
  const when = readFileSync(mark, 'utf8').trim();
  return `Two processes had the embedded database in ${dataDir} open at once (seen ${when}), as on a file system that two machines share. Tokens can be missing, though every record opens. Compare with a backup, then remove ${mark}.`;
}
