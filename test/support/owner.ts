import { execFileSync } from 'node:child_process';
import { chownSync } from 'node:fs';

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
