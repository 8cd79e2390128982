import { linkSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { parseKek } from '../crypto/kek.ts';
import { newKeyBytes } from '../crypto/primitives.ts';
import { OperatorError } from '../errors.ts';
import type { KekSource } from './kek-source.ts';

/** @param may_create true for the file in DATA_DIR, false for a KEK_FILE that the operator named */
export function kekFile(path: string, may_create: boolean): KekSource {
  return {
    place: path,
    read: async () => read(path),
    readOrCreate: async () => {
      if (may_create) create(path);
      return read(path);
    },
    warning: () =>
      isOpenToOthers(path)
        ? `${path} can be read by other users of the system. Run: chmod 600 ${path}`
        : undefined,
  };
}

function isOpenToOthers(path: string): boolean {
  return (statSync(path).mode & 0o077) !== 0;
}

function read(path: string): Buffer {
  let content: Buffer;
  try {
    content = readFileSync(path);
  } catch (error) {
    throw new OperatorError(
      `The key-encryption key cannot be read from ${path} (${(error as NodeJS.ErrnoException).code}). Set KEK_FILE to the file it is in, or put it back from your backup: without it the vault cannot be opened.`,
    );
  }
  const kek = parseKek(content);
  if (kek === undefined) {
    throw new OperatorError(
      `The key-encryption key in ${path} must be 32 bytes, or 64 hex digits; the file has ${content.length} bytes. Make one with: openssl rand -hex 32`,
    );
  }
  return kek;
}

/**
 * Appears whole or not at all, and never over an existing file: several processes may try at once.
 */
function create(path: string): void {
  const draft = `${path}.${process.pid}`;
  try {
    writeFileSync(draft, `${newKeyBytes().toString('hex')}\n`, { mode: 0o600 });
    linkSync(draft, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') {
      throw new OperatorError(
        `The key-encryption key cannot be written to ${path} (${(error as NodeJS.ErrnoException).code}).`,
      );
    }
  } finally {
    rmSync(draft, { force: true });
  }
}
