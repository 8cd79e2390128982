import { fork } from 'node:child_process';
import { accessSync, constants, mkdirSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { OperatorError } from '../errors.ts';
import { demandPrivateFolder } from '../private-files.ts';
import {
  isReady,
  LOST_RACE,
  MAX_SOCKET_PATH_BYTES,
  socketNumbers,
  socketPath,
} from './embedded-socket.ts';
import type { Address } from './pool.ts';

/** The compiled file, also when this file runs as TypeScript in a test. */
const SERVER = fileURLToPath(new URL('../../dist/store/embedded-server.js', import.meta.url));
const START_TIMEOUT_MS = 60_000;
/** Time for the process that holds the lock to open its socket, or to end. */
const HOLDER_TIMEOUT_MS = 10_000;
const RETRY_PAUSE_MS = 50;

/**
 * Finds the embedded Postgres of a data directory, or starts it as a child process. The child
 * serves all processes of the machine that use the directory. It ends when its parent is gone and
 * no connection is left.
 */
export class EmbeddedDatabase {
  readonly #dataDir: string;

  constructor(dataDir: string) {
    this.#dataDir = resolve(dataDir);
    const longest = Buffer.byteLength(socketPath(this.#dataDir, 999_999));
    if (longest > MAX_SOCKET_PATH_BYTES) {
      throw new OperatorError(
        `DATA_DIR is too long: the path of its Unix socket would have ${longest} bytes, but the limit is ${MAX_SOCKET_PATH_BYTES}. Use a shorter path.`,
      );
    }
  }

  /** Finds or starts the server. Several processes may call it at the same time. */
  async locate(): Promise<Address> {
    makeUsable(this.#dataDir);
    const giveUpMs = performance.now() + START_TIMEOUT_MS;
    let heldSinceMs = Infinity;
    while (performance.now() < giveUpMs) {
      const port = (await this.#running()) ?? (await this.#start());
      if (port !== undefined) return { socketDir: this.#dataDir, port };
      heldSinceMs = Math.min(heldSinceMs, performance.now());
      if (performance.now() - heldSinceMs > HOLDER_TIMEOUT_MS) throw isHeld(this.#dataDir);
      await new Promise((done) => setTimeout(done, RETRY_PAUSE_MS * (1 + Math.random())));
    }
    throw new OperatorError(
      `The embedded database in ${this.#dataDir} did not start within ${START_TIMEOUT_MS / 1000} s.`,
    );
  }

  async #running(): Promise<number | undefined> {
    for (const number of socketNumbers(this.#dataDir)) {
      if (await isReady(this.#dataDir, number, START_TIMEOUT_MS)) return number;
    }
    return undefined;
  }

  /** The port number of a new server, or undefined when another process was faster. */
  #start(): Promise<number | undefined> {
    const child = fork(SERVER, [this.#dataDir], {
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    return new Promise((resolve, reject) => {
      child.once('message', (message: { port: number }) => {
        // This process can exit while the child runs. The child notices and ends.
        child.unref();
        child.channel?.unref();
        resolve(message.port);
      });
      child.once('error', reject);
      child.once('exit', (code, signal) => {
        if (code === LOST_RACE) resolve(undefined);
        else reject(new OperatorError(startFailure(this.#dataDir, code ?? signal)));
      });
    });
  }
}

/**
 * @throws OperatorError when this user cannot make or write the folder, or other users can open it
 */
export function makeUsable(dataDir: string): void {
  try {
    makeFolder(dataDir);
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new OperatorError(
      `DATA_DIR is ${dataDir}, and this user cannot make or write that folder (${code}). Set DATA_DIR to a folder that it can write.`,
    );
  }
  demandPrivateFolder(dataDir, `DATA_DIR (${dataDir})`);
}

/**
 * Without `recursive`: Node 20 never returns from a recursive mkdir if the file system refuses new
 * folders with ENOENT (/proc).
 */
function makeFolder(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return;
    if (code !== 'ENOENT' || dirname(path) === path) throw error;
    makeFolder(dirname(path));
    mkdirSync(path, { mode: 0o700 });
  }
}

function isHeld(dataDir: string): OperatorError {
  return new OperatorError(
    `Another process has the embedded database in ${dataDir} open, but does not answer. Find that process, end it, and start again: pgrep -f 'embedded-server.js ${dataDir}'`,
  );
}

function startFailure(dataDir: string, end: number | string | null): string {
  return `The embedded database in ${dataDir} could not start (it ended with ${end}). See the lines above; the folder must be writable and made by this program.`;
}
