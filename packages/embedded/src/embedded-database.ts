import { fork } from 'node:child_process';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isReady, LOST_RACE, MAX_SOCKET_PATH_BYTES, socketNumbers, socketPath } from './socket.ts';

/** Where the server listens: the host and the port of a PostgreSQL driver. */
export interface SocketAddress {
  readonly socketDir: string;
  readonly port: number;
}

/** The database cannot be used. The message is for the person who runs the program. */
export class EmbeddedError extends Error {}

/** The compiled file, also when this file runs as TypeScript in a test. */
const BUILD = import.meta.url.replace('/packages/embedded/src/', '/dist/embedded/');
const SERVER = fileURLToPath(new URL('embedded-server.js', BUILD));
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
  readonly #sessionSql: string;

  /**
   * @param sessionSql runs once, in the single session that all connections share
   * @throws EmbeddedError when the path of the folder is too long for a socket
   */
  constructor(dataDir: string, sessionSql: string) {
    this.#dataDir = resolve(dataDir);
    this.#sessionSql = sessionSql;
    const longest = Buffer.byteLength(socketPath(this.#dataDir, 999_999));
    if (longest > MAX_SOCKET_PATH_BYTES) {
      throw new EmbeddedError(
        `DATA_DIR is too long: the path of its Unix socket would have ${longest} bytes, but the limit is ${MAX_SOCKET_PATH_BYTES}. Use a shorter path.`,
      );
    }
  }

  /**
   * Finds or starts the server. Several processes may call it at the same time.
   * @throws EmbeddedError when the server does not start
   */
  async locate(): Promise<SocketAddress> {
    const giveUpMs = performance.now() + START_TIMEOUT_MS;
    let heldSinceMs = Infinity;
    while (performance.now() < giveUpMs) {
      const port = (await this.#running()) ?? (await this.#start());
      if (port !== undefined) return { socketDir: this.#dataDir, port };
      heldSinceMs = Math.min(heldSinceMs, performance.now());
      if (performance.now() - heldSinceMs > HOLDER_TIMEOUT_MS) throw isHeld(this.#dataDir);
      await new Promise((done) => setTimeout(done, RETRY_PAUSE_MS * (1 + Math.random())));
    }
    throw new EmbeddedError(
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
    const child = fork(SERVER, [this.#dataDir, this.#sessionSql], {
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
        else reject(new EmbeddedError(startFailure(this.#dataDir, code ?? signal)));
      });
    });
  }
}

function isHeld(dataDir: string): EmbeddedError {
  return new EmbeddedError(
    `Another process has the embedded database in ${dataDir} open, but does not answer. Find that process, end it, and start again: pgrep -f 'embedded-server.js ${dataDir}'`,
  );
}

function startFailure(dataDir: string, end: number | string | null): string {
  return `The embedded database in ${dataDir} could not start (it ended with ${end}). See the lines above; the folder must be writable and made by this program.`;
}
