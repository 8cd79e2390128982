import { readdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
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
  return hasEvent(connect(socketPath(dataDir, number)), 'connect');
}

/**
 * Waits until the database behind the socket accepts connections. false when its process is gone or
 * does not answer in time.
 */
export function isReady(dataDir: string, number: number, timeoutMs: number): Promise<boolean> {
  const socket = connect(socketPath(dataDir, number));
  socket.once('connect', () => socket.write(ENCRYPTION_REQUEST));
  socket.setTimeout(timeoutMs, () => socket.destroy());
  // The server answers (with a plain no) only when the database has started.
  return hasEvent(socket, 'data');
}

/** Whether the event comes before the end of the socket, which it then ends. */
function hasEvent(socket: Socket, event: 'connect' | 'data'): Promise<boolean> {
  return new Promise((resolve) => {
    socket.once(event, () => {
      resolve(true);
      socket.destroy();
    });
    socket.once('error', () => {}).once('close', () => resolve(false));
  });
}
