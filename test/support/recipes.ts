import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { CLI, ROOT } from './program.ts';
import { type Command, run as runProgram, start as startProgram } from './running.ts';

/** What the recipes need is installed here once: later runs find it. */
const FOLDER = join(ROOT, 'build/recipes');

/** Installs a gigabyte: where somebody waits for it. */
export const areWanted = process.env.TEST_RECIPES === '1';

export const example = (path: string) => join(ROOT, 'examples', path);

/** An empty folder for a run; what was installed in `keep` stays. */
export function folderOf(name: string, keep: readonly string[] = []): string {
  const folder = join(FOLDER, name);
  mkdirSync(folder, { recursive: true });
  const others = `find . -mindepth 1 -maxdepth 1 ${keep.map((one) => `! -name ${one}`).join(' ')}`;
  execFileSync('sh', ['-c', `${others} -exec rm -rf {} +`], { cwd: folder });
  return folder;
}

/** Installs Python packages. @returns the folder of their programs */
export function installPython(name: string, ...packages: string[]): string {
  const folder = join(FOLDER, name);
  if (!existsSync(join(folder, 'bin/pip'))) execFileSync('python3', ['-m', 'venv', folder]);
  execFileSync(join(folder, 'bin/pip'), ['install', '--quiet', ...packages]);
  return join(folder, 'bin');
}

/** Installs npm packages and the client of this checkout. */
export function installNode(folder: string, ...packages: string[]): void {
  writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}');
  execFileSync('npm', ['install', '--silent', '--no-audit', '--no-fund', ...packages], {
    cwd: folder,
  });
  linkClient(folder);
}

/** The package standin-client, with the build of this checkout. */
export function linkClient(folder: string): void {
  const place = join(folder, 'node_modules/standin-client');
  rmSync(place, { recursive: true, force: true });
  mkdirSync(place, { recursive: true });
  cpSync(join(ROOT, 'packages/client/package.json'), join(place, 'package.json'));
  symlinkSync(join(ROOT, 'dist/client'), join(place, 'dist'));
}

export function maven(folder: string, ...goals: string[]): void {
  execFileSync('mvn', ['-q', '-B', ...goals], { cwd: folder, stdio: 'pipe' });
}

/** The Java example as a reader adds it to the package of a program. */
export function copyJavaExample(folder: string): void {
  cpSync(example('spring'), folder, { recursive: true });
  const text = readFileSync(example('java/Standin.java'), 'utf8');
  writeFileSync(join(folder, 'src/main/java/example/Standin.java'), `package example;\n${text}`);
}

/** The command `standin` for a shell: a folder for its PATH. */
export function commandFolder(folder: string): string {
  writeFileSync(join(folder, 'standin'), `#!/bin/sh\nexec '${process.execPath}' '${CLI}' "$@"\n`, {
    mode: 0o755,
  });
  return folder;
}

const within = (cwd: string, env: object) => ({ cwd, env: { ...process.env, ...env } });

export const start = (command: Command, cwd: string, env = {}) =>
  startProgram(command, within(cwd, env));

/** Runs it to its end. @returns its standard output */
export const run = (command: Command, cwd: string, env = {}) =>
  runProgram(command, within(cwd, env));
