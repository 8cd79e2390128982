import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach } from 'vitest';

/** A new folder, which is removed after the tests of the file or block. Its path is short, for sockets. */
export function newFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `standin-${name}-`));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A new folder for each test. @returns the path of a name in it */
export function folderOfEachTest(name: string): (name: string) => string {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), `standin-${name}-`));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));
  return (file) => join(folder, file);
}
