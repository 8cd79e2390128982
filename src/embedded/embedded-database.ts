import { fork } from 'node:child_process';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { OperatorError } from '../errors.ts';
import { makeDataDir } from '../private-files.ts';
import { isReady, LOST_RACE, MAX_SOCKET_PATH_BYTES, socketNumbers, socketPath } from './socket.ts';

/** The compiled file, also when this file runs as TypeScript in a test. */
const BUILD = import.meta.url.replace('/src/embedded/', '/dist/embedded/');
const SERVER = fileURLToPath(new URL('embedded-server.js', BUILD));
const START_TIMEOUT_MS = 60_000;
/** Time for the process that holds the lock to open its socket, or to end. */
const HOLDER_TIMEOUT_MS = 10_000;
const RETRY_PAUSE_MS = 50;

/**
 * Finds the embedded Postgres of a data directory, or starts it as a child process. The child
 * serves all processes of the machine that use the directory. It ends when its parent is gone and
 * no connection is left. Several processes may call this at the same time.
 * @param sessionSql runs once, in the single session that all connections share
 * @returns where the server listens: the host and the port of a PostgreSQL driver
 * @throws OperatorError when the server does not start
 */
export async function locateEmbedded(
  folder: string,
  sessionSql: string,
): Promise<{ readonly socketDir: string; readonly port: number }> {
  const dataDir = resolve(folder);
  checkLength(dataDir);
  makeDataDir(dataDir);
  const giveUpMs = performance.now() + START_TIMEOUT_MS;
  let heldSinceMs = Infinity;
  while (performance.now() < giveUpMs) {
    const port = (await running(dataDir)) ?? (await start(dataDir, sessionSql));
    if (port !== undefined) return { socketDir: dataDir, port };
    heldSinceMs = Math.min(heldSinceMs, performance.now());
    if (performance.now() - heldSinceMs > HOLDER_TIMEOUT_MS) throw isHeld(dataDir);
    await new Promise((done) => setTimeout(done, RETRY_PAUSE_MS * (1 + Math.random())));
  }
  throw new OperatorError(
    `The embedded database in ${dataDir} did not start within ${START_TIMEOUT_MS / 1000} s.`,
  );
}

function checkLength(dataDir: string): void {
  const longest = Buffer.byteLength(socketPath(dataDir, 999_999));
  if (longest > MAX_SOCKET_PATH_BYTES) {
    throw new OperatorError(
      `DATA_DIR is too long: the path of its Unix socket would have ${longest} bytes, but the limit is ${MAX_SOCKET_PATH_BYTES}. Use a shorter path.`,
    );
  }
}

async function running(dataDir: string): Promise<number | undefined> {
  for (const number of socketNumbers(dataDir)) {
    if (await isReady(dataDir, number, START_TIMEOUT_MS)) return number;
  }
  return undefined;
}

/** The port number of a new server, or undefined when another process was faster. */
function start(dataDir: string, sessionSql: string): Promise<number | undefined> {
  const child = fork(SERVER, [dataDir, sessionSql], {
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
      else reject(new OperatorError(startFailure(dataDir, code ?? signal)));
    });
  });
}

function isHeld(dataDir: string): OperatorError {
  return new OperatorError(
    `Another process has the embedded database in ${dataDir} open, but does not answer. Find that process, end it, and start again: pgrep -f 'embedded-server.js ${dataDir}'`,
  );
}

function startFailure(dataDir: string, end: number | string | null): string {
  return `The embedded database in ${dataDir} could not start (it ended with ${end}). See the lines above; the folder must be writable and made by this program.`;
}
