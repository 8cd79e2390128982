import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { type Ended, endOf, ROOT } from './program.ts';

export interface PackedFile {
  readonly path: string;
  readonly size: number;
  readonly mode: number;
}

export interface Packed {
  readonly tarball: string;
  /** In bytes. */
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly PackedFile[];
}

/** Not part of the source, or not to be copied. */
const LEFT_OUT = new Set(['.git', 'node_modules', 'dist', 'build', 'data', 'coverage']);

/** npm pack of a copy of the checkout: it builds, in a folder that no other test has. */
export function pack(folder: string): Packed {
  const checkout = join(folder, 'checkout');
  cpSync(ROOT, checkout, {
    recursive: true,
    filter: (path) => !LEFT_OUT.has(relative(ROOT, path)) && !path.endsWith('.tgz'),
  });
  symlinkSync(join(ROOT, 'node_modules'), join(checkout, 'node_modules'));
  const args = ['pack', '--json', '--pack-destination', folder];
  const printed = execFileSync('npm', args, {
    cwd: checkout,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  // What the build prints comes before it.
  const [packed] = JSON.parse(printed.slice(printed.indexOf('[\n')));
  rmSync(checkout, { recursive: true });
  return { ...packed, tarball: join(folder, packed.filename) };
}

const NO_REGISTRY = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ENEEDAUTH/;

/**
 * npm install of the tarball into a folder that is made for it.
 * @returns false where no registry can be reached; @throws on any other failure
 */
export function install(tarball: string, folder: string): boolean {
  mkdirSync(folder);
  writeFileSync(join(folder, 'package.json'), '{}');
  const flags = ['--prefer-offline', '--no-audit', '--no-fund', '--fetch-retries=1'];
  const { status, stderr } = spawnSync('npm', ['install', ...flags, tarball], {
    cwd: folder,
    encoding: 'utf8',
  });
  if (status === 0) return true;
  if (NO_REGISTRY.test(stderr)) return false;
  throw new Error(stderr);
}

export interface Surroundings {
  readonly cwd: string;
  readonly env?: Record<string, string>;
  readonly uid?: number;
  readonly gid?: number;
}

/** Runs a program to its end, without the settings of who runs the tests. */
export function run(
  program: string,
  args: readonly string[],
  { env, ...where }: Surroundings,
): Promise<Ended> {
  return endOf(spawn(program, args, { ...where, env: { ...plainEnvironment(), ...env } }));
}

/** npm needs a home folder for its cache and registry; services have no setting by accident. */
export function plainEnvironment(): Record<string, string> {
  const { PATH = '', HOME = '' } = process.env;
  return { PATH, HOME };
}
