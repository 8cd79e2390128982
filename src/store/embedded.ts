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

/** The compiled one, also when this file runs as TypeScript in a test. */
const SERVER = fileURLToPath(new URL('../../dist/store/embedded-server.js', import.meta.url));
const START_TIMEOUT_MS = 60_000;
/** For a process that has the lock to open its socket, or to end. */
const HOLDER_TIMEOUT_MS = 10_000;
const RETRY_PAUSE_MS = 50;

/**
 * Finds the embedded Postgres of a data directory, or starts it as a child process. The child
 * serves all processes of the machine that use the directory, and ends when its parent is gone and
 * nobody is connected.
 */
export class EmbeddedDatabase {
  readonly #data_dir: string;

  constructor(data_dir: string) {
    this.#data_dir = resolve(data_dir);
    const longest = Buffer.byteLength(socketPath(this.#data_dir, 999_999));
    if (longest > MAX_SOCKET_PATH_BYTES) {
      throw new OperatorError(
        `DATA_DIR is too long: the path of its Unix socket would have ${longest} bytes, and a system allows ${MAX_SOCKET_PATH_BYTES}. Use a shorter path.`,
      );
    }
  }

  /** Where it listens now. Safe to call at once from several processes. */
  async locate(): Promise<Address> {
    makeUsable(this.#data_dir);
    const give_up_ms = performance.now() + START_TIMEOUT_MS;
    let held_since_ms = Infinity;
    while (performance.now() < give_up_ms) {
      const port = (await this.#running()) ?? (await this.#start());
      if (port !== undefined) return { socket_dir: this.#data_dir, port };
      held_since_ms = Math.min(held_since_ms, performance.now());
      if (performance.now() - held_since_ms > HOLDER_TIMEOUT_MS) throw isHeld(this.#data_dir);
      await new Promise((done) => setTimeout(done, RETRY_PAUSE_MS * (1 + Math.random())));
    }
    throw new OperatorError(
      `The embedded database in ${this.#data_dir} did not start within ${START_TIMEOUT_MS / 1000} s.`,
    );
  }

  async #running(): Promise<number | undefined> {
    for (const number of socketNumbers(this.#data_dir)) {
      if (await isReady(this.#data_dir, number, START_TIMEOUT_MS)) return number;
    }
    return undefined;
  }

  /** The port number of a new server, or undefined when another process was first. */
  #start(): Promise<number | undefined> {
    const child = fork(SERVER, [this.#data_dir], {
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    return new Promise((resolve, reject) => {
      child.once('message', (message: { port: number }) => {
        // It must not keep this process from ending, and ends with it.
        child.unref();
        child.channel?.unref();
        resolve(message.port);
      });
      child.once('error', reject);
      child.once('exit', (code, signal) => {
        if (code === LOST_RACE) resolve(undefined);
        else reject(new OperatorError(startFailure(this.#data_dir, code ?? signal)));
      });
    });
  }
}

/** @throws OperatorError when the folder cannot be made or written to, or is open to others */
export function makeUsable(data_dir: string): void {
  try {
    makeFolder(data_dir);
    accessSync(data_dir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new OperatorError(
      `DATA_DIR is ${data_dir}, and this user cannot make or write that folder (${code}). Set DATA_DIR to a folder that it can write.`,
    );
  }
  demandPrivateFolder(data_dir, `DATA_DIR (${data_dir})`);
}

/**
 * Not `recursive`: Node 20 never returns from that where a file system refuses new folders with
 * ENOENT (/proc).
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

function isHeld(data_dir: string): OperatorError {
  return new OperatorError(
    `Another process has the embedded database in ${data_dir} open, and does not answer. Find that process, end it, and start again: pgrep -f 'embedded-server.js ${data_dir}'`,
  );
}

function startFailure(data_dir: string, end: number | string | null): string {
  return `The embedded database in ${data_dir} could not start (it ended with ${end}). See the lines above; the directory must be writable and made by this program.`;
}
