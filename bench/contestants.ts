import { createDatabase, freePort } from '../test/support/postgres.ts';
import { childrenOf } from '../test/support/processes.ts';
import {
  type Kind,
  makePlace,
  NO_LIMITS,
  newerNode,
  runCli,
  spawnCli,
} from '../test/support/program.ts';
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

/** A service under load, in its own process or processes. */
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
  if (name === 'echo') return startEchoes(leftovers);
  if (name === 'naive') return startNaive(server!, leftovers);
  return startStandin(name === 'postgres' ? 'server' : 'embedded', server, leftovers);
}

/** Whether this machine has a Node whose servers can share a port. */
export const canSharePorts = newerNode !== undefined;

/** @param processes on one port; undefined: one process on its own port */
export async function startEchoes(leftovers: Leftovers, processes?: number): Promise<Contestant> {
  const args = processes === undefined ? [] : [String(await freePort())];
  const node = processes === undefined ? undefined : newerNode;
  const pids: number[] = [];
  let url = '';
  for (let i = 0; i < (processes ?? 1); i++) {
    const echo = await startProgram('echo.js', args, leftovers, node);
    pids.push(echo.child.pid!);
    url = echo.url;
  }
  return {
    ...ofProcesses('echo', pids, undefined),
    ...(processes === undefined ? {} : { title: `${TITLES.echo}, ${processes} on one port` }),
    url,
    apiKey: 'none',
    vault: undefined,
  };
}

async function startNaive(server: DatabaseServer, leftovers: Leftovers): Promise<Contestant> {
  const databaseUrl = await createDatabase(server.url);
  const { child, url } = await startProgram('naive.js', [databaseUrl], leftovers);
  return {
    ...ofProcesses('naive', [child.pid!], server.pid),
    url,
    apiKey: 'none',
    vault: { databaseUrl, table: 'vault' },
  };
}

/**
 * The real program with its default settings except the rate limit. Its log is discarded.
 * @param nodes on one port; undefined: one node on its own port, without the ops listener
 * @param commands to run before it starts, in its folder
 */
export async function startStandin(
  kind: Kind,
  server: DatabaseServer | undefined,
  leftovers: Leftovers,
  nodes?: number,
  commands: (folder: string) => string[][] = () => [],
): Promise<Contestant> {
  const place = await makePlace(kind, server?.url ?? '');
  const { DATABASE_URL: databaseUrl } = place.env;
  leftovers.add(async () => place.remove());
  await runCli(['migrate'], place);
  const made = await runCli(['client', 'create', '--name', 'bench', '--json'], place);
  if (made.code !== 0) throw new Error(`client create failed: ${made.stderr}`);
  for (const command of commands(place.folder)) {
    const { code, stderr } = await runCli(command, place);
    if (code !== 0) throw new Error(`${command.join(' ')} failed: ${stderr}`);
  }
  const port = String(await freePort());
  const url = `http://127.0.0.1:${port}`;
  const pids: number[] = [];
  for (let i = 0; i < (nodes ?? 1); i++) {
    // On a shared port any node may answer, but each node has its own ops listener.
    const opsPort = nodes === undefined ? 0 : await freePort();
    const env = { PORT: port, OPS_PORT: String(opsPort), ...NO_LIMITS };
    const shared = nodes === undefined ? {} : { REUSE_PORT: 'true' };
    const node = nodes === undefined ? process.execPath : newerNode;
    const stdio = ['ignore', 'ignore', 'inherit'] as const;
    const child = spawnCli(['serve'], place, { ...env, ...shared }, [...stdio], node);
    leftovers.add(() => end(child, 'SIGINT'));
    const health = opsPort === 0 ? `${url}/health` : `http://127.0.0.1:${opsPort}/metrics`;
    await healthy('standin serve', health, child);
    pids.push(child.pid!);
  }
  const databasePid = kind === 'server' ? server!.pid : childrenOf(pids[0]!)[0];
  return {
    ...ofProcesses(kind === 'server' ? 'postgres' : 'embedded', pids, databasePid),
    ...(nodes === undefined ? {} : { title: `Standin, ${nodes} ${nodes > 1 ? 'nodes' : 'node'}` }),
    url,
    apiKey: JSON.parse(made.stdout).api_key,
    vault: databaseUrl === undefined ? undefined : { databaseUrl, table: 'standin.records' },
  };
}

/** What the names and processes of a contestant tell. */
export function ofProcesses(
  name: ContestantName,
  pids: readonly number[],
  databasePid: number | undefined,
) {
  return {
    name,
    title: TITLES[name],
    peer: name === 'openbao' || name === 'secrets' ? name : undefined,
    serviceCpuS: () => pids.reduce((sum, pid) => sum + cpuSeconds(pid), 0),
    databaseCpuS: () => (databasePid === undefined ? NaN : familyCpuSeconds(databasePid)),
    rssMib: () => rssMib(pids[0]!),
  };
}
