import { type ChildProcess, execFileSync, execSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createDatabase, freePort } from '../test/support/postgres.ts';
import { childrenOf } from '../test/support/processes.ts';
import { CLI, makePlace, NO_LIMITS, ROOT, runCli, spawnCli } from '../test/support/program.ts';
import type { DatabaseServer } from './database.ts';
import type { Flags } from './flags.ts';
import type { Target } from './interfaces.ts';
import type { Leftovers } from './leftovers.ts';
import { startOpenBao } from './openbao.ts';
import { end, healthy, startProgram } from './processes.ts';
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
  readonly server: DatabaseServer | undefined;
  readonly leftovers: Leftovers;
  /** Number of the next new record. */
  nextRecord: number;
}

/** A contestant to start. */
export interface Entry {
  readonly name: ContestantName;
  readonly title?: string;
  /** Whether its records have ten fields. */
  readonly isWide?: boolean;
  /** A policy to apply, as JSON. */
  readonly policy?: string;
}

/** A service under load, in its own process. */
export interface Contestant extends Target, Entry {
  readonly title: string;
  readonly isWide: boolean;
  readonly pid: number;
  /** undefined: no database. */
  readonly databasePid?: number | undefined;
  /** undefined: not in PostgreSQL. */
  readonly databaseUrl?: string | undefined;
}

/** @param part gets every process and folder to remove, as soon as it exists */
export async function startContestant(
  entry: Entry,
  bench: Bench,
  folder: string,
  part: Leftovers,
): Promise<Contestant> {
  const { name } = entry;
  const common = { title: TITLES[name], isWide: false, speaks: 'standin' as const, ...entry };
  if (name === 'openbao') {
    const started = await startOpenBao(bench.flags.peer!, folder, part);
    return { ...common, ...started, speaks: 'openbao' };
  }
  const server = name === 'echo' || name === 'embedded' ? undefined : bench.server;
  if (name !== 'echo' && name !== 'embedded' && server === undefined)
    throw new Error('needs a PostgreSQL, which is not here');
  if (name !== 'echo' && name !== 'naive')
    return { ...common, ...(await startStandin(entry, { ...bench, server }, part)) };
  const databaseUrl = server && (await createDatabase(server.url));
  const program = await startProgram(`${name}.js`, [databaseUrl ?? ''], part);
  return { ...common, ...program, apiKey: 'none', databaseUrl, databasePid: server?.pid };
}

/** The real program without rate limit and ops listener. Its log is discarded. */
async function startStandin(entry: Entry, { server, flags }: Bench, part: Leftovers) {
  const kind = server === undefined ? 'embedded' : 'server';
  const cli = entry.name === 'past' ? buildPast(flags.past) : CLI;
  const place = { ...(await makePlace(kind, server?.url ?? '')), cli };
  part.add(async () => place.remove());
  const run = async (...command: string[]) => {
    const { code, stdout, stderr } = await runCli(command, place);
    if (code !== 0) throw new Error(`${command.join(' ')} failed: ${stderr}`);
    return stdout;
  };
  await run('migrate');
  const client = JSON.parse(await run('client', 'create', '--name', 'bench', '--json'));
  if (entry.policy !== undefined) {
    writeFileSync(join(place.folder, 'policy.json'), entry.policy);
    await run('policy', 'apply', 'policy.json', '--yes');
  }
  const port = String(await freePort());
  const url = `http://127.0.0.1:${port}`;
  const env = { PORT: port, OPS_PORT: '0', ...NO_LIMITS };
  const child = spawnCli(['serve'], place, env, ['ignore', 'ignore', 'inherit']);
  part.add(() => end(child, 'SIGINT'));
  await healthy(`${url}/health`, child);
  const pid = child.pid!;
  const databasePid = server?.pid ?? childrenOf(pid)[0];
  return { pid, databasePid, databaseUrl: place.env.DATABASE_URL, url, apiKey: client.api_key };
}

/** The last commit whose speed is the measure. */
export const PAST = 'e0c8a12';

/**
 * The program of another commit, which is built once, below build/. Its commands and settings for a
 * vault and a client must be those of today, as they are since e0c8a12; it needs to know no policy.
 */
function buildPast(commit: string): string {
  const folder = join(ROOT, 'build/past', commit);
  if (!existsSync(folder)) {
    const unfinished = `${folder}.unfinished`;
    rmSync(unfinished, { recursive: true, force: true });
    mkdirSync(unfinished, { recursive: true });
    const source = execFileSync('git', ['archive', commit], { cwd: ROOT, maxBuffer: 1 << 30 });
    execFileSync('tar', ['-x'], { cwd: unfinished, input: source });
    for (const command of ['npm ci --silent --no-audit --no-fund', 'npm run -s build'])
      execSync(command, { cwd: unfinished, stdio: ['ignore', 2, 2] });
    renameSync(unfinished, folder);
  }
  return join(folder, 'dist/cli.js');
}
