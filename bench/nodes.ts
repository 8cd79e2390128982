import type { ChildProcess } from 'node:child_process';
import { newerNode } from '../test/support/newer-node.ts';
import { freePort } from '../test/support/postgres.ts';
import { makePlace, NO_LIMITS, runCli, spawnCli } from '../test/support/program.ts';
import { cpu, latency, spread } from './cells.ts';
import { type Contestant, end, healthy, startProgram } from './contestants.ts';
import { familyCpuSeconds, processCpuSeconds } from './cpu.ts';
import type { DatabaseServer } from './database.ts';
import type { Leftovers } from './leftovers.ts';
import { small } from './loads.ts';
import { table } from './markdown.ts';
import { durationMs, type Measurement, measure, outcome, turnName } from './measurements.ts';
import type { Progress } from './progress.ts';

export interface NodesPlan {
  readonly server: DatabaseServer;
  readonly seconds: number;
  readonly rounds: number;
}

/** Several processes of one kind on one port. */
export interface CrewRounds {
  readonly kind: 'echo' | 'standin';
  readonly processes: number;
  readonly rounds: readonly Measurement[];
}

const CONNECTIONS = 256;
const LOAD = small('tokenize', CONNECTIONS);
const CREWS = (['echo', 'standin'] as const).flatMap((kind) =>
  [1, 2].map((processes) => ({ kind, processes })),
);

/** Whether this machine has a Node whose servers can share a port. */
export const canSharePorts = newerNode !== undefined;

export function countNodesSteps(rounds: number): number {
  return CREWS.length * (1 + rounds);
}

/** A warm-up of all contestants, then rounds in which they take turns. */
export async function measureNodes(
  plan: NodesPlan,
  generator: ChildProcess,
  progress: Progress,
  leftovers: Leftovers,
): Promise<CrewRounds[]> {
  const part = leftovers.part();
  const entrants = [];
  for (const { kind, processes } of CREWS) {
    progress.note(`Starting ${titleOf(kind, processes)}`);
    const contestant = await (kind === 'echo'
      ? startEchoes(processes, part)
      : startNodes(processes, plan.server, part));
    entrants.push({ kind, processes, contestant, rounds: [] as Measurement[] });
  }
  let from = 0;
  for (let round = 0; round <= plan.rounds; round++) {
    for (const { kind, processes, contestant, rounds } of entrants) {
      const text = `${titleOf(kind, processes)}, ${turnName(round)}: ${LOAD.title}`;
      progress.begin(text);
      const measurement = await measure(generator, contestant, LOAD, round, {
        operation: 'tokenize',
        source: { kind: 'fresh', records: 1 },
        connections: CONNECTIONS,
        url: contestant.url,
        api_key: contestant.api_key,
        from,
        duration_ms: durationMs(plan.seconds, round),
      });
      from = measurement.result.next;
      if (round > 0) rounds.push(measurement);
      progress.end(text, outcome(measurement));
    }
  }
  await part.removeAll();
  return entrants;
}

function titleOf(kind: CrewRounds['kind'], processes: number): string {
  const name = kind === 'echo' ? 'Fastify echo' : 'Standin';
  const [one, many] = kind === 'echo' ? ['process', 'processes'] : ['node', 'nodes'];
  return `${name}, ${processes} ${processes === 1 ? one : many}`;
}

/** Nodes of one vault, on one port. */
async function startNodes(
  count: number,
  server: DatabaseServer,
  leftovers: Leftovers,
): Promise<Contestant> {
  const place = await makePlace('server', server.url);
  leftovers.add(async () => place.remove());
  leftovers.add(() => server.drop(place.env.DATABASE_URL!));
  const made = await runCli(['client', 'create', '--name', 'bench', '--json'], place);
  if (made.code !== 0) throw new Error(`client create failed: ${made.stderr}`);
  const PORT = String(await freePort());
  const pids: number[] = [];
  for (let i = 0; i < count; i++) {
    const OPS_PORT = String(await freePort());
    const env = { PORT, OPS_PORT, REUSE_PORT: 'true', ...NO_LIMITS };
    const child = spawnCli(['serve'], place, env, ['ignore', 'ignore', 'inherit'], newerNode);
    leftovers.add(() => end(child, 'SIGINT'));
    // On the shared port any node may answer, but each node has its own ops listener.
    await healthy('standin serve', `http://127.0.0.1:${OPS_PORT}/metrics`, child);
    pids.push(child.pid!);
  }
  return {
    name: 'postgres',
    url: `http://127.0.0.1:${PORT}`,
    api_key: JSON.parse(made.stdout).api_key,
    serviceCpuSeconds: () => sumOf(pids),
    databaseCpuSeconds: () => server.pid && familyCpuSeconds(server.pid),
  };
}

async function startEchoes(count: number, leftovers: Leftovers): Promise<Contestant> {
  const port = String(await freePort());
  const pids: number[] = [];
  let url = '';
  for (let i = 0; i < count; i++) {
    const echo = await startProgram('echo.js', [port], leftovers, newerNode);
    pids.push(echo.child.pid!);
    url = echo.url;
  }
  return {
    name: 'echo',
    url,
    api_key: 'none',
    serviceCpuSeconds: () => sumOf(pids),
    databaseCpuSeconds: () => undefined,
  };
}

/** undefined: a system without /proc. */
function sumOf(pids: readonly number[]): number | undefined {
  let sumS = 0;
  for (const pid of pids) {
    const cpuS = processCpuSeconds(pid);
    if (cpuS === undefined) return undefined;
    sumS += cpuS;
  }
  return sumS;
}

const HEADINGS = ['', 'requests/s (min–max)', 'p99 ms', 'CPU ms a request: service'];

export function nodesSection(all: readonly CrewRounds[]): string {
  const rows = all.map(({ kind, processes, rounds }) => [
    titleOf(kind, processes),
    spread(rounds.map(({ rate }) => rate)),
    latency(rounds.map(({ result }) => result.p99_ms)),
    cpu(rounds, ({ serviceCpuS }) => serviceCpuS, 1_000),
  ]);
  return `## Nodes on one port: ${LOAD.title.toLowerCase()}\n\n${table(HEADINGS, rows)}`;
}
