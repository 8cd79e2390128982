import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
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
import { CLI, endOf, ROOT } from './program.ts';
import { until } from './service.ts';

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

export interface Running {
  /** Everything it wrote. */
  output(): string;
  /** What a group of the pattern matched, once the program wrote it. */
  wrote(pattern: RegExp): Promise<string>;
  stop(): Promise<void>;
}

type Command = readonly [string, ...string[]];

export function start([program, ...words]: Command, cwd: string, env = {}): Running {
  const child: ChildProcess = spawn(program, words, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  const read = (chunk: Buffer) => {
    output += chunk;
  };
  child.stdout!.on('data', read);
  child.stderr!.on('data', read);
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  let isOver = false;
  void ended.then(() => {
    isOver = true;
  });
  return {
    output: () => output,
    wrote: async (pattern) => {
      await until(() => isOver || pattern.test(output), `${program} writes ${pattern}`);
      const found = pattern.exec(output);
      if (found === null) throw new Error(`${program} ended:\n${output}`);
      return found[1] ?? '';
    },
    stop: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

/** Runs it to its end. @returns its standard output */
export async function run([program, ...words]: Command, cwd: string, env = {}): Promise<string> {
  const { code, stdout, stderr } = await endOf(
    spawn(program, words, {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    }),
  );
  if (code !== 0) throw new Error(`${program} ended with ${code}:\n${stdout}\n${stderr}`);
  return stdout;
}
