import {
  chmodSync,
  closeSync,
  fstatSync,
  fsyncSync,
  linkSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { OperatorError } from './errors.ts';

/**
 * Which files this process believes, as ssh decides it: they belong to this user or to root, and
 * nobody else writes them. Of a secret, others may not read either. The group may: a Kubernetes
 * secret belongs to root and to the `fsGroup` of the pod, with mode 0440.
 */
const WRITE_BITS = 0o022;
const SECRET_BITS = 0o027;
const OTHERS = 0o007;
const GROUP_WRITES = 0o020;
const FIX_SECRET =
  'of a Kubernetes secret, set defaultMode: 0440 on its volume and fsGroup for the pod';

/**
 * A file that holds a key or a password.
 * @param name what the file is, for messages: `The key-encryption key in /etc/standin/kek`
 * @throws OperatorError when others may read it; the error of the system when it cannot be read
 */
export function readSecret(path: string, name: string): Buffer {
  return read(path, name, SECRET_BITS, `Run: chmod 600 ${path}; ${FIX_SECRET}`);
}

/** A file that decides what this process does, and has no secret in it or need not have one. */
export function readTrusted(path: string, name: string): Buffer {
  return read(path, name, WRITE_BITS, `Run: chmod go-w ${path}`);
}

function read(path: string, name: string, refusedBits: number, remedy: string): Buffer {
  // Who owns a link decides what the link leads to.
  demandOwner(lstatSync(path), path, name);
  const fd = openSync(path, 'r');
  try {
    // Of the open file: the name may lead elsewhere by now.
    const status = fstatSync(fd);
    demandOwner(status, path, name);
    demandMode(status, refusedBits, name, remedy);
    return readFileSync(fd);
  } finally {
    closeSync(fd);
  }
}

/**
 * Appears whole or not at all, on the disk when this returns, and never over an existing file:
 * several processes may try at once. No symbolic link is followed.
 * @throws the error of the system
 */
export function createSecret(path: string, content: string): void {
  const draft = `${path}.${process.pid}`;
  try {
    rmSync(draft, { force: true });
    writeFileSync(draft, content, { mode: 0o600, flag: 'wx', flush: true });
    linkSync(draft, path);
    syncFolder(dirname(path));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

/** A new name is on the disk when its folder is. */
function syncFolder(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/**
 * A folder with secrets in it, and everything right in it. A folder that is still empty, and that
 * others may only read, is closed instead, as initdb does: new volumes of containers are so.
 * @throws OperatorError when others may read or write it
 */
export function demandPrivateFolder(path: string, name: string): void {
  demandOwner(lstatSync(path), path, name);
  const status = statSync(path);
  demandOwner(status, path, name);
  const remedy = `Run: chmod 700 ${path}; or name a folder in it, which this program makes`;
  demandMode(status, WRITE_BITS, name, remedy);
  const inside = readdirSync(path);
  if (inside.length === 0 && isOpen(status, SECRET_BITS) && status.uid === process.geteuid?.())
    chmodSync(path, 0o700);
  // Another process may have closed it meanwhile.
  else demandMode(statSync(path), SECRET_BITS, name, remedy);
  for (const entry of inside) {
    const at = join(path, entry);
    const found = lstatSync(at, { throwIfNoEntry: false });
    if (found !== undefined) demandOwner(found, at, at);
  }
}

function demandOwner({ uid }: Stats, path: string, name: string): void {
  const own = process.geteuid?.();
  // No such users: Windows.
  if (own === undefined || uid === own || uid === 0) return;
  throw new OperatorError(
    `${name} belongs to user ${uid}, who could change it at any time; it must belong to this user (${own}) or to root. Run this program as that user, or as root run: chown ${own} ${path}`,
  );
}

function isOpen({ mode }: Stats, refusedBits: number): boolean {
  return process.geteuid !== undefined && (mode & refusedBits) !== 0;
}

function demandMode(status: Stats, refusedBits: number, name: string, remedy: string): void {
  if (!isOpen(status, refusedBits)) return;
  const bits = status.mode & refusedBits;
  const who = (bits & OTHERS) !== 0 ? 'every user of this machine' : 'its group';
  const may = (bits & (WRITE_BITS | GROUP_WRITES)) !== 0 ? 'write' : 'read';
  const mode = (status.mode & 0o7777).toString(8).padStart(4, '0');
  throw new OperatorError(
    `${name} is open to others: ${who} may ${may} it (mode ${mode}). ${remedy}.`,
  );
}
