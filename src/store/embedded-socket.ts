import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';

/** Exit code of an embedded server that found the directory taken. */
export const LOST_RACE = 75;

/** sunPath of a Unix socket address on macOS and the BSDs; Linux has four more. */
export const MAX_SOCKET_PATH_BYTES = 103;

/** SSLRequest of PostgreSQL's protocol: its length and its code. */
const ENCRYPTION_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);

const SOCKET_NAME = /^\.s\.PGSQL\.(\d+)$/;

/** The name that PostgreSQL's drivers look for when the host is a folder. */
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

/** Whether a living process listens on the socket: it holds the directory. */
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
 * Whether the database behind the socket takes connections: waits for its start, false when it is
 * gone, or stands still.
 */
export function isReady(dataDir: string, number: number, patienceMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketPath(dataDir, number));
    socket.once('connect', () => socket.write(ENCRYPTION_REQUEST));
    socket.setTimeout(patienceMs, () => socket.destroy());
    // Its answer, a plain no, comes only when the database is there.
    socket.once('data', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
    socket.once('close', () => resolve(false));
  });
}
