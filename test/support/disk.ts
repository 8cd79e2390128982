import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { errorCode } from '../../src/errors.ts';

/** In many containers, no mounts can be made. */
export const canMount = spawnSync('unshare', '-m mount -t tmpfs none /mnt'.split(' ')).status === 0;

/** A folder that is a disk of this size until the end of the test. Every user may write there. */
export function newDisk(size: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'standin-disk-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'standin-test', folder]);
  onTestFinished(() => {
    // Lazily: a program that was killed a moment ago may still have it open.
    execFileSync('umount', ['-l', folder]);
    rmSync(folder, { recursive: true, force: true });
  });
  chmodSync(folder, 0o777);
  return folder;
}

/** Fills a disk to its last byte, with a file `ballast`. */
export function fill(disk: string): void {
  const zeros = Buffer.alloc(1 << 20);
  try {
    for (;;) writeFileSync(join(disk, 'ballast'), zeros, { flag: 'a' });
  } catch (error) {
    if (errorCode(error) !== 'ENOSPC') throw error;
  }
}
