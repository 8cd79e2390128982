import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { OperatorError } from './errors.ts';

/**
 * The files that this process trusts, by the rules of ssh: they belong to this user or to root, and
 * no other user can write them. Other users may not read a secret either. Its group may read it,
 * because a Kubernetes secret belongs to root and the pod's `fsGroup`, with mode 0440.
 */
const WRITE_BITS = 0o022;
const SECRET_BITS = 0o027;
const OTHERS = 0o007;
const GROUP_WRITES = 0o020;
const FIX_SECRET =
  'for a Kubernetes secret, set defaultMode: 0440 on its volume and fsGroup for the pod';

/**
 * Reads a file that holds a key or a password.
 * @param name the file in words, for messages: `The key-encryption key in /etc/standin/kek`
 * @throws OperatorError when other users may read it; the system's error when it cannot be read
 */
export function readSecret(path: string, name: string): Buffer {
  return read(path, name, SECRET_BITS, `Run: chmod 600 ${path}; ${FIX_SECRET}`);
}

/** Reads a file that decides what this process does, and that need not be secret. */
export function readTrusted(path: string, name: string): Buffer {
  return read(path, name, WRITE_BITS, `Run: chmod go-w ${path}`);
}

function read(path: string, name: string, refusedBits: number, remedy: string): Buffer {
  // The owner of a link decides where it leads.
  requireOwner(fs.lstatSync(path), path, name);
  const fd = fs.openSync(path, 'r');
  try {
    // Checks the open file: by now, the name may lead to another file.
    const status = fs.fstatSync(fd);
    requireOwner(status, path, name);
    requireMode(status, refusedBits, name, remedy);
    return fs.readFileSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/**
 * Creates the file whole or not at all, and never overwrites one: several processes may try at the
 * same time. When this returns, the file is on the disk. Follows no symbolic link.
 * @throws the system's error
 */
export function createSecret(path: string, content: string): void {
  const draft = `${path}.${process.pid}`;
  try {
    fs.rmSync(draft, { force: true });
    fs.writeFileSync(draft, content, { mode: 0o600, flag: 'wx', flush: true });
    fs.linkSync(draft, path);
    syncFolder(dirname(path));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    fs.rmSync(draft, { force: true });
  }
}

/** A new name is on the disk only when its folder is. */
function syncFolder(path: string): void {
  const fd = fs.openSync(path, 'r');
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/**
 * Makes DATA_DIR, if it is missing.
 * @throws OperatorError when this user cannot make or write the folder, or other users can open it
 */
export function makeDataDir(dataDir: string): void {
  try {
    makeFolder(dataDir);
    fs.accessSync(dataDir, fs.constants.R_OK | fs.constants.W_OK | fs.constants.X_OK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new OperatorError(
      `DATA_DIR is ${dataDir}, and this user cannot make or write that folder (${code}). Set DATA_DIR to a folder that it can write.`,
    );
  }
  requirePrivateFolder(dataDir, `DATA_DIR (${dataDir})`);
}

/**
 * Without `recursive`: Node 20 never returns from a recursive mkdir if the file system refuses new
 * folders with ENOENT (/proc).
 */
function makeFolder(path: string): void {
  try {
    fs.mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return;
    if (code !== 'ENOENT' || dirname(path) === path) throw error;
    makeFolder(dirname(path));
    fs.mkdirSync(path, { mode: 0o700 });
  }
}

/**
 * Demands that only this user can open a folder of secrets, and that this user or root owns all it
 * contains. If the folder is empty and others may only read it, this closes it, as initdb does: new
 * volumes of containers are like that.
 * @throws OperatorError when others may read or write it
 */
function requirePrivateFolder(path: string, name: string): void {
  requireOwner(fs.lstatSync(path), path, name);
  const status = fs.statSync(path);
  requireOwner(status, path, name);
  const remedy = `Run: chmod 700 ${path}; or name a new folder inside it, and this program makes that one`;
  requireMode(status, WRITE_BITS, name, remedy);
  const inside = fs.readdirSync(path);
  if (inside.length === 0 && isOpen(status, SECRET_BITS) && status.uid === process.geteuid?.())
    fs.chmodSync(path, 0o700);
  // Another process may have closed the folder meanwhile.
  else requireMode(fs.statSync(path), SECRET_BITS, name, remedy);
  for (const entry of inside) {
    const at = join(path, entry);
    const found = fs.lstatSync(at, { throwIfNoEntry: false });
    if (found !== undefined) requireOwner(found, at, at);
  }
}

function requireOwner({ uid }: fs.Stats, path: string, name: string): void {
  const own = process.geteuid?.();
  // Windows has no such users.
  if (own === undefined || uid === own || uid === 0) return;
  throw new OperatorError(
    `${name} belongs to user ${uid}, who could change it at any time; it must belong to this user (${own}) or to root. Run this program as that user, or as root run: chown ${own} ${path}`,
  );
}

function isOpen({ mode }: fs.Stats, refusedBits: number): boolean {
  return process.geteuid !== undefined && (mode & refusedBits) !== 0;
}

function requireMode(status: fs.Stats, refusedBits: number, name: string, remedy: string): void {
  if (!isOpen(status, refusedBits)) return;
  const bits = status.mode & refusedBits;
  const who = (bits & OTHERS) !== 0 ? 'every user of this machine' : 'its group';
  const may = (bits & (WRITE_BITS | GROUP_WRITES)) !== 0 ? 'write' : 'read';
  const mode = (status.mode & 0o7777).toString(8).padStart(4, '0');
  throw new OperatorError(
    `${name} is open to others: ${who} may ${may} it (mode ${mode}). ${remedy}.`,
  );
}
