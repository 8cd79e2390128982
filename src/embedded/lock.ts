import { spawnSync } from 'node:child_process';
import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import { createServer } from 'node:net';

/**
 * A flag of open(2) on macOS and the BSDs that takes the lock of flock(2). Node has no name for it.
 */
const O_EXLOCK = 0x20;
/** Exit code of flock(1) when another process has the lock. */
const IS_LOCKED = 1;

/**
 * Takes the lock of flock(2) on a file or folder until this process ends, however it ends. The
 * kernel keeps the lock with the inode. So containers that share the folder share the lock, and no
 * removed file releases it. Node cannot call flock(2), so flock(1) locks our descriptor and exits.
 * @param flags of open(2)
 * @returns the descriptor, which must stay open; undefined: another process has the lock
 */
export async function lockPath(path: string, flags: number): Promise<number | undefined> {
  if (process.platform !== 'linux') return lockByOpening(path, flags);
  const fd = openSync(path, flags, 0o600);
  const { status } = spawnSync('flock', ['-n', '3'], { stdio: ['ignore', 'ignore', 'ignore', fd] });
  if (status === 0 || (status !== IS_LOCKED && (await lockByName(fd)))) return fd;
  closeSync(fd);
  return undefined;
}

function lockByOpening(path: string, flags: number): number | undefined {
  try {
    return openSync(path, flags | constants.O_NONBLOCK | O_EXLOCK, 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return undefined;
    throw error;
  }
}

/**
 * For systems without flock(1) and file systems without such locks: an abstract socket, named after
 * the inode. It also ends with its process and leaves no file. But each network namespace has its
 * own.
 */
function lockByName(fd: number): Promise<boolean> {
  const { dev, ino } = fstatSync(fd);
  const server = createServer((socket) => socket.destroy()).unref();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(`\0standin-${dev}-${ino}`, () => resolve(true));
  });
}
