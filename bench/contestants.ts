import { type ChildProcess, fork } from 'node:child_process';
import { createDatabase, freePort } from '../test/support/postgres.ts';
import { type Kind, makePlace, NO_LIMITS, runCli, spawnCli } from '../test/support/program.ts';
import { childrenOf, familyCpuSeconds, processCpuSeconds } from './cpu.ts';
import type { DatabaseServer } from './database.ts';
import type { Leftovers } from './leftovers.ts';
import { processRssBytes } from './memory.ts';
import { PEER_TITLES, type PeerName } from './peers.ts';

export const CONTESTANTS = ['echo', 'naive', 'postgres', 'embedded'] as const;
type OwnName = (typeof CONTESTANTS)[number];
export type ContestantName = OwnName | PeerName;

export const TITLES: Record<ContestantName, string> = {
  echo: 'Fastify echo',
  naive: 'naive service',
  postgres: 'Standin on PostgreSQL',
  embedded: 'Standin, embedded',
  ...PEER_TITLES,
};

/** A service under load, in its own process. */
export interface Contestant {
  readonly name: ContestantName;
  readonly url: string;
  readonly api_key: string;
  serviceCpuSeconds(): number | undefined;
  databaseCpuSeconds(): number | undefined;
}

/** A contestant whose vault and memory the benchmark can inspect. */
export interface Standin extends Contestant {
  /** undefined: the embedded database. */
  readonly databaseUrl: string | undefined;
  rssBytes(): number | undefined;
}

const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 10_000;

/**
 * @param server undefined: only for contestants without PostgreSQL
 * @param leftovers gets every process and folder to remove, as soon as it exists
 */
export function startContestant(
  name: OwnName,
  server: DatabaseServer | undefined,
  leftovers: Leftovers,
): Promise<Contestant> {
  switch (name) {
    case 'echo':
      return startEcho(leftovers);
    case 'naive':
      return startNaive(server!, leftovers);
    case 'postgres':
      return startStandin('server', server, leftovers);
    case 'embedded':
      return startStandin('embedded', undefined, leftovers);
  }
}

async function startEcho(leftovers: Leftovers): Promise<Contestant> {
  const { child, url } = await startProgram('echo.js', [], leftovers);
  return {
    name: 'echo',
    url,
    api_key: 'none',
    serviceCpuSeconds: () => processCpuSeconds(child.pid!),
    databaseCpuSeconds: () => undefined,
  };
}

async function startNaive(server: DatabaseServer, leftovers: Leftovers): Promise<Contestant> {
  const databaseUrl = await createDatabase(server.url);
  leftovers.add(() => server.drop(databaseUrl));
  const { child, url } = await startProgram('naive.js', [databaseUrl], leftovers);
  return {
    name: 'naive',
    url,
    api_key: 'none',
    serviceCpuSeconds: () => processCpuSeconds(child.pid!),
    databaseCpuSeconds: () => server.pid && familyCpuSeconds(server.pid),
  };
}

/**
 * The real program with its default settings except the rate limit. Its log is discarded.
 * @param settings further environment variables
 */
export async function startStandin(
  kind: Kind,
  server: DatabaseServer | undefined,
  leftovers: Leftovers,
  settings: Readonly<Record<string, string>> = {},
): Promise<Standin> {
  const place = await makePlace(kind, server?.url ?? '');
  const { DATABASE_URL: databaseUrl } = place.env;
  leftovers.add(async () => place.remove());
  if (databaseUrl !== undefined) leftovers.add(() => server!.drop(databaseUrl));
  const made = await runCli(['client', 'create', '--name', 'bench', '--json'], place);
  if (made.code !== 0) throw new Error(`client create failed: ${made.stderr}`);
  const port = await freePort();
  const env = { PORT: String(port), OPS_PORT: '0', ...NO_LIMITS, ...settings };
  const child = spawnCli(['serve'], place, env, ['ignore', 'ignore', 'inherit']);
  leftovers.add(() => end(child, 'SIGINT'));
  const url = `http://127.0.0.1:${port}`;
  await healthy('standin serve', `${url}/health`, child);
  const pid = child.pid!;
  const databasePid = kind === 'server' ? server!.pid : childrenOf(pid)[0];
  return {
    name: kind === 'server' ? 'postgres' : 'embedded',
    url,
    api_key: JSON.parse(made.stdout).api_key,
    databaseUrl,
    rssBytes: () => processRssBytes(pid),
    serviceCpuSeconds: () => processCpuSeconds(pid),
    databaseCpuSeconds: () => databasePid && familyCpuSeconds(databasePid),
  };
}

/**
 * Starts a program of the benchmark, which reports its address.
 * @param node the Node that runs the program
 */
export async function startProgram(
  file: string,
  args: readonly string[],
  leftovers: Leftovers,
  node = process.execPath,
): Promise<{ child: ChildProcess; url: string }> {
  const child = fork(new URL(file, import.meta.url), args, { execArgv: [], execPath: node });
  leftovers.add(() => end(child, 'SIGKILL'));
  const url = await new Promise<string>((resolve, reject) => {
    child.once('message', (message: { url: string }) => resolve(message.url));
    child.once('exit', (code, signal) => reject(new Error(`${file} ended with ${code ?? signal}`)));
  });
  return { child, url };
}

/** Waits until a started program answers. @param name for error messages */
export async function healthy(name: string, url: string, child: ChildProcess): Promise<void> {
  const giveUpMs = performance.now() + START_TIMEOUT_MS;
  while (performance.now() < giveUpMs) {
    if (child.exitCode !== null) throw new Error(`${name} ended with ${child.exitCode}`);
    const answer = await fetch(url).catch(() => undefined);
    if (answer?.status === 200) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`${name} was not healthy within ${START_TIMEOUT_MS} ms`);
}

/** Asks a process to end, and kills it after a while. */
export async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = new Promise((resolve) => child.once('exit', resolve));
  child.kill(signal);
  const force = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
  await exit;
  clearTimeout(force);
}
