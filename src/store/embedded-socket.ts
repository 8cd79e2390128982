import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';

/** Exit code of an embedded server that found the directory taken. */
export const LOST_RACE = 75;

/** sun_path of a Unix socket address on macOS and the BSDs; Linux has four more. */
export const MAX_SOCKET_PATH_BYTES = 103;

const SOCKET_NAME = /^\.s\.PGSQL\.(\d+)$/;

/** The name that PostgreSQL's drivers look for when the host is a folder. */
export function socketPath(data_dir: string, number: number): string {
  return join(data_dir, `.s.PGSQL.${number}`);
}

export function socketNumbers(data_dir: string): number[] {
  return readdirSync(data_dir)
    .map((name) => SOCKET_NAME.exec(name)?.[1])
    .filter((digits) => digits !== undefined)
    .map(Number)
    .sort((a, b) => b - a);
}

/** Whether a living process listens on the socket. */
export function answers(data_dir: string, number: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketPath(data_dir, number));
    const settle = (is_alive: boolean) => {
      socket.destroy();
      resolve(is_alive);
    };
    socket.once('connect', () => settle(true));
    socket.once('error', () => settle(false));
  });
}
