import { createDatabase, freePort } from '../test/support/postgres.ts';
import { childrenOf } from '../test/support/processes.ts';
import { type Kind, makePlace, NO_LIMITS, runCli, spawnCli } from '../test/support/program.ts';
import type { DatabaseServer } from './database.ts';
import { ADAPTERS, type PeerName } from './interfaces.ts';
import type { Leftovers } from './leftovers.ts';
import { cpuSeconds, end, familyCpuSeconds, healthy, rssMib, startProgram } from './processes.ts';

export const CONTESTANTS = ['echo', 'naive', 'postgres', 'embedded'] as const;
type OwnName = (typeof CONTESTANTS)[number];
export type ContestantName = OwnName | PeerName;

export const TITLES: Record<ContestantName, string> = {
  echo: 'Fastify echo',
  naive: 'naive service',
  postgres: 'Standin on PostgreSQL',
  embedded: 'Standin, embedded',
  openbao: ADAPTERS.openbao.title,
  secrets: ADAPTERS.secrets.title,
};

/** A service under load, in its own process. */
export interface Contestant {
  readonly name: ContestantName;
  readonly title: string;
  /** undefined: speaks Standin's interface. */
  readonly peer: PeerName | undefined;
  readonly url: string;
  readonly apiKey: string;
  /** Whether its records have ten fields. */
  readonly isWide?: boolean;
  /** CPU time and memory so far; NaN: not known, or no database. */
  serviceCpuS(): number;
  databaseCpuS(): number;
  rssMib(): number;
  /** The table of its tokens; undefined: not in PostgreSQL. */
  readonly vault: { readonly databaseUrl: string; readonly table: string } | undefined;
}

export function needsServer(name: ContestantName): boolean {
  return name === 'naive' || name === 'postgres' || name === 'secrets';
}

/**
 * @param server undefined: only for contestants without PostgreSQL
 * @param leftovers gets every process and folder to remove, as soon as it exists
 */
export function startContestant(
  name: OwnName,
  server: DatabaseServer | undefined,
  leftovers: Leftovers,
): Promise<Contestant> {
  if (name === 'echo') return startEcho(leftovers);
  if (name === 'naive') return startNaive(server!, leftovers);
  return startStandin(name === 'postgres' ? 'server' : 'embedded', server, leftovers);
}

async function startEcho(leftovers: Leftovers): Promise<Contestant> {
  const { child, url } = await startProgram('echo.js', [], leftovers);
  const echo = ofProcess('echo', child.pid!, undefined);
  return { ...echo, url, apiKey: 'none', vault: undefined };
}

async function startNaive(server: DatabaseServer, leftovers: Leftovers): Promise<Contestant> {
  const databaseUrl = await createDatabase(server.url);
  const { child, url } = await startProgram('naive.js', [databaseUrl], leftovers);
  return {
    ...ofProcess('naive', child.pid!, server.pid),
    url,
    apiKey: 'none',
    vault: { databaseUrl, table: 'vault' },
  };
}

/**
 * The real program with its default settings except the rate limit, without the ops listener. Its
 * log is discarded.
 * @param commands to run before it starts, in its folder
 */
export async function startStandin(
  kind: Kind,
  server: DatabaseServer | undefined,
  leftovers: Leftovers,
  commands: (folder: string) => string[][] = () => [],
): Promise<Contestant> {
  const place = await makePlace(kind, server?.url ?? '');
  const { DATABASE_URL: databaseUrl } = place.env;
  leftovers.add(async () => place.remove());
  const create = ['client', 'create', '--name', 'bench', '--json'];
  let apiKey = '';
  for (const command of [['migrate'], create, ...commands(place.folder)]) {
    const { code, stdout, stderr } = await runCli(command, place);
    if (code !== 0) throw new Error(`${command.join(' ')} failed: ${stderr}`);
    if (command === create) apiKey = JSON.parse(stdout).api_key;
  }
  const port = String(await freePort());
  const url = `http://127.0.0.1:${port}`;
  const env = { PORT: port, OPS_PORT: '0', ...NO_LIMITS };
  const child = spawnCli(['serve'], place, env, ['ignore', 'ignore', 'inherit']);
  leftovers.add(() => end(child, 'SIGINT'));
  await healthy('standin serve', `${url}/health`, child);
  const databasePid = kind === 'server' ? server!.pid : childrenOf(child.pid!)[0];
  return {
    ...ofProcess(kind === 'server' ? 'postgres' : 'embedded', child.pid!, databasePid),
    url,
    apiKey,
    vault: databaseUrl === undefined ? undefined : { databaseUrl, table: 'standin.records' },
  };
}

/** What the names and process of a contestant tell. */
export function ofProcess(name: ContestantName, pid: number, databasePid: number | undefined) {
  return {
    name,
    title: TITLES[name],
    peer: name === 'openbao' || name === 'secrets' ? name : undefined,
    serviceCpuS: () => cpuSeconds(pid),
    databaseCpuS: () => (databasePid === undefined ? NaN : familyCpuSeconds(databasePid)),
    rssMib: () => rssMib(pid),
  };
}
