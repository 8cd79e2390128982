import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { CLI, ROOT } from '../support/program.ts';

const folder = mkdtempSync(join(tmpdir(), 'standin-'));
afterAll(() => rmSync(folder, { recursive: true }));

const packageJson = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

/** Runs `standin --version` on a Node that says it is this version. */
function runOn(version: string) {
  const preload = join(folder, `${version}.cjs`);
  const versions = `{ ...process.versions, node: '${version}' }`;
  writeFileSync(preload, `Object.defineProperty(process, 'versions', { value: ${versions} });`);
  const { PATH = '', HOME = '' } = process.env;
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['-r', preload, CLI, '--version'],
    {
      encoding: 'utf8',
      env: { PATH, HOME, NODE_DEBUG: 'esm' },
      // Each loaded file is named many times with its path, so the output grows with the path.
      maxBuffer: Number.POSITIVE_INFINITY,
    },
  );
  const loaded = [...stderr.matchAll(/file:\S+\/dist\/(\w[\w/.-]*\.js)/g)].map(([, file]) => file);
  const said = stderr.split('\n').filter((line) => line.startsWith('standin: '));
  return { status, stdout, said, loaded: new Set(loaded) };
}

test.each(['12.22.12', '18.20.8', '20.18.3'])(
  'Node %s is refused in words, before anything else is loaded',
  (version) => {
    expect(runOn(version)).toEqual({
      status: 1,
      stdout: '',
      said: [
        `standin: This is Node ${version}, but Standin needs Node 20.19 or newer. Install it from https://nodejs.org`,
      ],
      loaded: new Set(['cli.js']),
    });
  },
);

test.each(['20.19.0', '22.0.0', '100.1.0'])('Node %s is taken', (version) => {
  const { status, stdout, loaded } = runOn(version);
  expect({ status, stdout }).toEqual({ status: 0, stdout: `${packageJson.version}\n` });
  expect(loaded).toContain('commands/program.js');
});
