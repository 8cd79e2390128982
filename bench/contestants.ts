import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, renameSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { PostgresCluster } from '../test/support/postgres.ts';
import { childrenOf, freePort } from '../test/support/processes.ts';
import { CLI, makePlace, NO_LIMITS, ROOT, runCli, spawnCli } from '../test/support/program.ts';
import type { Flags } from './flags.ts';
import { post, type Target } from './interfaces.ts';
import type { Request } from './load.ts';
import { end, healthy, type Leftovers } from './processes.ts';
import type { Results } from './results.ts';

export const TITLES = {
  echo: 'Fastify echo',
  naive: 'naive service',
  postgres: 'Standin on PostgreSQL',
  embedded: 'Standin, embedded',
  past: 'earlier Standin',
  openbao: 'OpenBao transit',
} as const;
export type ContestantName = keyof typeof TITLES;

/** What all parts of a run share. */
export interface Bench {
  readonly flags: Flags;
  readonly results: Results;
  readonly generator: ChildProcess;
  /** undefined: not installed. */
  readonly server: PostgresCluster | undefined;
  readonly leftovers: Leftovers;
  /** Number of the next new record. */
  nextRecord: number;
}

/** A contestant to start. */
export interface Entry {
  readonly name: ContestantName;
  readonly title: string;
  /** Whether its records have ten fields. */
  readonly isWide: boolean;
  /** A policy to apply, as JSON. */
  readonly policy?: string;
}

/** A service under load, in its own process. */
export interface Contestant extends Target, Entry {
  readonly pid: number;
  /** undefined: no database. */
  readonly databasePid?: number | undefined;
  /** undefined: not in PostgreSQL. */
  readonly databaseUrl?: string | undefined;
  /** Requests for its tokens, and for values that are stored already. */
  readonly prepared?: Prepared;
}

export type Prepared = Readonly<Record<'detokenize' | 'repeat', readonly Request[]>>;

/** @param part gets every process and folder to remove, as soon as it exists */
export async function startContestant(
  entry: Entry,
  bench: Bench,
  part: Leftovers,
): Promise<Contestant> {
  const { name } = entry;
  const isOnServer = name !== 'echo' && name !== 'embedded' && name !== 'openbao';
  const server = isOnServer ? bench.server : undefined;
  if (isOnServer && server === undefined) throw new Error('needs a PostgreSQL, which is not here');
  const port = String(await freePort());
  const url = `http://127.0.0.1:${port}`;
  const databasePid = server?.postmasterPid;
  const service = { speaks: 'standin' as const, url, apiKey: 'none', databasePid, ...entry };
  if (name === 'openbao') {
    const started = await startOpenBao(bench.flags.peer!, url, part);
    return { ...service, ...started, speaks: 'openbao' };
  }
  if (name !== 'echo' && name !== 'naive')
    return { ...service, ...(await startStandin(service, { ...bench, server }, part)) };
  const databaseUrl = await server?.createDatabase();
  const file = join(import.meta.dirname, `${name}.js`);
  const child = spawn(process.execPath, [file, port, databaseUrl ?? ''], { stdio: 'inherit' });
  part.add(() => end(child, 'SIGKILL'));
  await healthy(`${url}/health/live`, child);
  return { ...service, pid: child.pid!, databaseUrl };
}

/** The real program without rate limit and ops listener. Its log is discarded. */
async function startStandin(
  { name, policy, url, databasePid }: Entry & Omit<Contestant, 'pid'>,
  { server, flags }: Bench,
  part: Leftovers,
) {
  const kind = server === undefined ? 'embedded' : 'server';
  const cli = name === 'past' ? buildPast(flags.past) : CLI;
  const place = { ...(await makePlace(kind, server?.url('postgres') ?? '')), cli };
  part.add(async () => place.remove());
  const run = async (...command: string[]) => {
    const { code, stdout, stderr } = await runCli(command, place);
    if (code !== 0) throw new Error(`${command.join(' ')} failed: ${stderr}`);
    return stdout;
  };
  await run('migrate');
  const client = JSON.parse(await run('client', 'create', '--name', 'bench', '--json'));
  if (policy !== undefined) {
    writeFileSync(join(place.folder, 'policy.json'), policy);
    await run('policy', 'apply', 'policy.json', '--yes');
  }
  const env = { PORT: new URL(url).port, OPS_PORT: '0', ...NO_LIMITS };
  const child = spawnCli(['serve'], place, env, ['ignore', 'ignore', 'inherit']);
  part.add(() => end(child, 'SIGINT'));
  await healthy(`${url}/health`, child);
  return {
    ...{ pid: child.pid!, databasePid: databasePid ?? childrenOf(child.pid!)[0] },
    ...{ databaseUrl: place.env.DATABASE_URL, apiKey: client.api_key as string },
  };
}

/** Builds the commit `$0` in the folder `$1`. */
const BUILD = `
rm -rf "$1"
mkdir -p "$1"
git archive "$0" | tar -xC "$1"
cd "$1"
npm ci --silent --no-audit --no-fund
npm run -s build`;

/** The last commit whose speed is the measure. */
export const PAST = 'e0c8a12';

/**
 * The program of another commit, which is built once, below build/. Its commands and settings for a
 * vault and a client must be those of today, as they are since e0c8a12; it needs to know no policy.
 */
function buildPast(commit: string): string {
  const folder = join(ROOT, 'build/past', commit);
  if (!existsSync(folder)) {
    const args = ['-ec', BUILD, commit, `${folder}.unfinished`];
    execFileSync('sh', args, { cwd: ROOT, stdio: ['ignore', 2, 2] });
    renameSync(`${folder}.unfinished`, folder);
  }
  return join(folder, 'dist/cli.js');
}

/** Differences from Standin, because rows of one table suggest that both do the same. */
export const OPENBAO_NOTE =
  'a Go program on all cores, asked in its own interface and checked like the others. It stores nothing: the caller keeps three ciphertexts (aes256-gcm96), new ones each time. No database and no fsync is in its figures.';

/** What the program tells of its version; undefined: no such program. */
export function versionOf(program: string): string | undefined {
  const { stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' });
  return /\d+\.\d+\.\d+/.exec(stdout ?? '')?.[0];
}

/** An unsealed single-node server in memory, with a token that may only use one key. */
async function startOpenBao(program: string, url: string, leftovers: Leftovers) {
  const administrator = { speaks: 'openbao', url, apiKey: 'root' } as const;
  const address = `-dev-listen-address=${new URL(url).host}`;
  const secret = `-dev-root-token-id=${administrator.apiKey}`;
  const args = ['server', '-dev', '-dev-no-store-token', secret, address];
  // Settings of the user's own installation must not reach it.
  const { PATH, HOME } = process.env;
  const child = spawn(program, args, { cwd: tmpdir(), env: { PATH, HOME }, stdio: 'ignore' });
  // Fails with the reason why the file cannot run.
  await once(child, 'spawn');
  leftovers.add(() => end(child, 'SIGTERM'));
  await healthy(`${url}/v1/sys/health`, child);
  const ask = (path: string, body: object) =>
    post(administrator, `/v1/${path}`, JSON.stringify(body));
  await ask('sys/mounts/transit', { type: 'transit' });
  await ask('transit/keys/bench', { type: 'aes256-gcm96' });
  const policy = 'path "transit/+/bench" { capabilities = ["update"] }';
  await ask('sys/policies/acl/bench', { policy });
  const { auth } = await ask('auth/token/create', { policies: ['bench'] });
  return { pid: child.pid!, apiKey: auth.client_token as string };
}
