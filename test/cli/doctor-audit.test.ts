import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeVault, type Place, runCli, usualPlace } from '../support/service.ts';

let place: Place;
beforeAll(async () => {
  place = await usualPlace();
  await makeVault(place);
});
afterAll(() => place.remove());

interface Finding {
  readonly check: string;
  readonly status: string;
  readonly detail: string;
}

/** What doctor says of this AUDIT_LOG, and its exit code. */
async function examine(path: string): Promise<Finding & { code: number | string }> {
  const { code, stdout } = await runCli(['doctor', '--json'], place, { AUDIT_LOG: path });
  const finding = JSON.parse(stdout).find((one: Finding) => one.check === 'audit log');
  return { code, ...finding };
}

describe('doctor on AUDIT_LOG', () => {
  test('a file that is still to be made is well when its folder is, and is not made', async () => {
    const path = join(place.folder, 'audit.log');
    const { code, status, detail } = await examine(path);
    expect({ code, status }).toEqual({ code: 0, status: 'ok' });
    expect(detail).toMatch(/audit\.log can be written, \d+\.\d GiB free on the disk of \//);
    expect(existsSync(path)).toBe(false);
    writeFileSync(path, '');
    expect(await examine(path)).toEqual({
      check: 'audit log',
      code,
      status,
      detail: expect.stringContaining('can be written, '),
    });
  });

  test.each([
    ['in a folder that is not there', 'none/audit.log', 'ENOENT'],
    ['that is a folder', 'folder', 'EISDIR'],
    ['in what is no folder', 'file/audit.log', 'ENOTDIR'],
  ])('%s is a problem, in the words of a start that fails', async (_, name, errno) => {
    mkdirSync(join(place.folder, 'folder'), { recursive: true });
    writeFileSync(join(place.folder, 'file'), '');
    const path = join(place.folder, name);
    const { code, status, detail } = await examine(path);
    expect({ code, status }).toEqual({ code: 1, status: 'problem' });
    expect(detail).toContain(
      `cannot be opened for writing (${errno}). Let this user write to the file`,
    );
    const start = await runCli(['serve'], place, { AUDIT_LOG: path, PORT: '0', OPS_PORT: '0' });
    expect(start.stderr).toBe(`standin: ${detail}\n`);
  });

  test('standard output and what is no file need no disk', async () => {
    expect(await examine('stdout')).toMatchObject({ status: 'ok', detail: 'standard output' });
    expect(await examine('/dev/null')).toMatchObject({
      status: 'ok',
      detail: '/dev/null can be written, and is not a file on a disk',
    });
  });
});

/** A file system of 1 MiB, where this user may mount one. */
function mountSmall(folder: string): boolean {
  mkdirSync(folder);
  return spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder]).status === 0;
}

test('a disk that is almost full is a warning that names its folder', async ({ skip }) => {
  const small = join(place.folder, 'small');
  if (!mountSmall(small)) skip();
  try {
    mkdirSync(join(small, 'logs'));
    const { code, status, detail } = await examine(join(small, 'logs', 'audit.log'));
    expect({ code, status }).toEqual({ code: 0, status: 'warning' });
    expect(detail).toContain(`0.0 GiB free on the disk of ${small}. Make room there`);
  } finally {
    execFileSync('umount', ['-l', small]);
  }
});
