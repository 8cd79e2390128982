import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { type Ended, endOf, ROOT } from './program.ts';
import type { Surroundings } from './running.ts';

/** What `npm pack` says of a package, and where it is. Sizes are in bytes. */
export interface Packed {
  readonly tarball: string;
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string; readonly mode: number }[];
}

/** Time to build, pack and install on a busy machine. */
export const PACK_TIMEOUT_MS = 300_000;

/** Folders that the copy omits. */
const LEFT_OUT = new Set(['.git', 'node_modules', 'dist', 'build', 'data', 'coverage']);

function isLeftOut(path: string): boolean {
  return LEFT_OUT.has(path.replace(/^packages\/\w+\//, '')) || path.endsWith('.tgz');
}

/**
 * Runs npm pack on a copy of the checkout, because it builds, and other tests use the checkout.
 * @param within the folder of the package in the checkout
 */
export async function pack(folder: string, within = ''): Promise<Packed> {
  const checkout = join(folder, 'checkout');
  cpSync(ROOT, checkout, {
    recursive: true,
    filter: (path) => !isLeftOut(relative(ROOT, path)),
  });
  symlinkSync(join(ROOT, 'node_modules'), join(checkout, 'node_modules'));
  const args = ['pack', '--json', '--pack-destination', folder];
  const { code, stdout, stderr } = await run('npm', args, { cwd: join(checkout, within) });
  if (code !== 0) throw new Error(stdout + stderr);
  // The output of the build comes before the JSON.
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf('[\n')));
  rmSync(checkout, { recursive: true });
  return { ...packed, tarball: join(folder, packed.filename) };
}

const NO_REGISTRY = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH/;

/**
 * Runs npm install of the tarball in a new folder.
 * @param more options of npm
 * @returns false if the registry is unreachable; @throws on any other failure
 */
export async function install(
  tarball: string,
  folder: string,
  more: readonly string[] = [],
): Promise<boolean> {
  mkdirSync(folder);
  writeFileSync(join(folder, 'package.json'), '{}');
  const offline = ['--prefer-offline', '--fetch-retries=1', '--fetch-retry-mintimeout=200'];
  const args = ['install', '--no-audit', '--no-fund', ...offline, ...more, tarball];
  const { code, stderr } = await run('npm', args, { cwd: folder });
  if (code === 0) return true;
  if (NO_REGISTRY.test(stderr)) return false;
  throw new Error(stderr);
}

/** Runs a program to its end, without the developer's own settings. */
export function run(
  program: string,
  args: readonly string[],
  { env, ...where }: Partial<Surroundings>,
): Promise<Ended> {
  return endOf(spawn(program, args, { ...where, env: { ...plainEnvironment(), ...env } }));
}

/** Only the variables that npm needs for its cache and settings. */
export function plainEnvironment(): Record<string, string> {
  const kept = Object.entries(process.env).filter(([name]) =>
    /^(PATH|HOME|TMPDIR|https?_proxy|no_proxy|npm_config_.*|NODE_EXTRA_CA_CERTS|TEST_RUN)$/i.test(
      name,
    ),
  );
  return Object.fromEntries(kept) as Record<string, string>;
}
