import { execFileSync } from 'node:child_process';
import { chownSync, readlinkSync } from 'node:fs';
import { createServer } from 'node:net';

/** Living children of a process. */
export function childrenOf(parent: number): number[] {
  const listed = execFileSync('ps', ['-eo', 'pid=,ppid=,stat='], { encoding: 'utf8' });
  return listed.split('\n').flatMap((line) => {
    const [pid, ppid, state] = line.trim().split(/ +/);
    return Number(ppid) === parent && !state!.startsWith('Z') ? [Number(pid)] : [];
  });
}

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Where a link of /proc leads; empty when what it stood for is gone. */
export function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

/** Below the ports of outgoing connections on Linux, which could take the port meanwhile. */
const FIRST = 10_000;
const LAST = 32_000;

/** A TCP port of the loopback address that was free a moment ago. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST));
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/** Postgres and PgBouncer refuse to run as root, so root runs them as the user `postgres`. */
export const owner = process.getuid?.() === 0 ? userIds('postgres') : {};

/** Gives a file or folder to the user of those programs. */
export function handOver(path: string): void {
  if (owner.uid !== undefined) chownSync(path, owner.uid, owner.gid!);
}

function userIds(name: string): { uid?: number; gid?: number } {
  try {
    const id = (flag: string) => Number(execFileSync('id', [flag, name], { encoding: 'utf8' }));
    return { uid: id('-u'), gid: id('-g') };
  } catch {
    return {};
  }
}
