import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';

/** Exit code of an embedded server when another process holds the directory. */
export const LOST_RACE = 75;

/** Size of sun_path in a Unix socket address on macOS and the BSDs. Linux has four bytes more. */
export const MAX_SOCKET_PATH_BYTES = 103;

/** SSLRequest of PostgreSQL's protocol: its length and its code. */
const ENCRYPTION_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);

const SOCKET_NAME = /^\.s\.PGSQL\.(\d+)$/;

/** PostgreSQL drivers look for this name when the host is a folder. */
export function socketPath(dataDir: string, number: number): string {
  return join(dataDir, `.s.PGSQL.${number}`);
}

export function socketNumbers(dataDir: string): number[] {
  return readdirSync(dataDir)
    .map((name) => SOCKET_NAME.exec(name)?.[1])
    .filter((digits) => digits !== undefined)
    .map(Number)
    .sort((a, b) => b - a);
}

/** Whether a living process listens on the socket, and so holds the directory. */
export function isHeld(dataDir: string, number: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketPath(dataDir, number));
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

/**
 * Waits until the database behind the socket accepts connections. false when its process is gone or
 * does not answer in time.
 */
export function isReady(dataDir: string, number: number, patienceMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketPath(dataDir, number));
    socket.once('connect', () => socket.write(ENCRYPTION_REQUEST));
    socket.setTimeout(patienceMs, () => socket.destroy());
    // The server answers (with a plain no) only when the database has started.
    socket.once('data', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
    socket.once('close', () => resolve(false));
  });
}
