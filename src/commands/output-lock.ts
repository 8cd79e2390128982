import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { resolve } from 'node:path';
import { BulkError, lockOf, writing } from '#bulk';
import { lockPath } from '../embedded/lock.ts';

const FLAGS = constants.O_RDWR | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0);

/**
 * Keeps other runs from writing a file or folder until this process ends, however it ends. The lock
 * is on a file beside it, because a run replaces the file itself.
 * @throws BulkError when another run has it, or the file of the lock cannot be written
 */
export async function lockOutput(path: string): Promise<void> {
  const lock = lockOf(resolve(path));
  for (;;) {
    const fd = await writing(path, () => lockPath(lock, FLAGS));
    if (fd === undefined) throw isWritten(path, lock);
    // The run before removes the file at its end, perhaps between our open and our lock.
    if (statSync(lock, { throwIfNoEntry: false })?.ino === fstatSync(fd).ino) return sign(lock, fd);
    closeSync(fd);
  }
}

/** What a lock of ours has in it: the process that took it last, or nothing. */
const SIGNATURE = /^\d*$/;

function sign(lock: string, fd: number): void {
  if (!SIGNATURE.test(readFileSync(fd, 'utf8')))
    throw new BulkError(`${lock} is in the way: it is no lock of this program`);
  process.once('exit', () => rmSync(lock, { force: true }));
  ftruncateSync(fd);
  writeSync(fd, String(process.pid), 0);
}

function isWritten(path: string, lock: string): BulkError {
  let who = '';
  try {
    who = ` (process ${readFileSync(lock, 'utf8')})`;
  } catch {
    // The other run ends at this moment, and has removed it.
  }
  return new BulkError(`Another run${who} is writing ${path}: wait until it ends, or end it first`);
}
