import { constants } from 'node:fs';
import { access, realpath, stat, statfs } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { errorCode } from '../../errors.ts';
import type { Finding } from '../../types.ts';
import { cannotWrite, STANDARD_OUTPUT } from './audit-file.ts';

const { R_OK, W_OK, X_OK } = constants;
const GIB = 2 ** 30;
/** Room for two million lines of 500 bytes: time enough to react. */
const WARN_FREE_BYTES = GIB;

/** The audit log check of `standin doctor`. Unlike the check at start, it creates no file. */
export async function auditFinding(path: string): Promise<Finding> {
  const check = 'audit log';
  if (path === STANDARD_OUTPUT) return { check, status: 'ok', detail: 'standard output' };
  try {
    const there = await stat(path).catch((error) => {
      if (errorCode(error) !== 'ENOENT') throw error;
    });
    if (there !== undefined && !there.isFile()) return await special(path, there.isDirectory());
    const folder = dirname(resolve(path));
    // An existing file is also read, at its end. A missing file is created in its folder.
    if (there === undefined) await access(folder, W_OK | X_OK);
    else await access(path, R_OK | W_OK);
    const written = await realpath(there === undefined ? folder : path);
    const { bavail, bsize } = await statfs(written);
    const freeBytes = bavail * bsize;
    const space = `${(freeBytes / GIB).toFixed(1)} GiB free on the disk of ${await mountOf(written)}`;
    if (freeBytes >= WARN_FREE_BYTES)
      return { check, status: 'ok', detail: `${path} can be written, ${space}` };
    const remedy = 'Make room there, or set AUDIT_LOG to a file on another disk.';
    return { check, status: 'warning', detail: `${path} can be written, but ${space}. ${remedy}` };
  } catch (error) {
    return { check, status: 'problem', detail: cannotWrite(path, errorCode(error)) };
  }
}

/** A folder, or a pipe, socket or device, which takes no space on a disk. */
async function special(path: string, isFolder: boolean): Promise<Finding> {
  const check = 'audit log';
  if (isFolder) return { check, status: 'problem', detail: cannotWrite(path, 'EISDIR') };
  await access(path, W_OK);
  return { check, status: 'ok', detail: `${path} can be written, and is not a file on a disk` };
}

/**
 * The topmost folder on the same file system.
 * @param path without symbolic links
 */
async function mountOf(path: string): Promise<string> {
  const { dev } = await stat(path);
  let at = path;
  while (at !== dirname(at) && (await stat(dirname(at))).dev === dev) at = dirname(at);
  return at;
}
