import type { ChildProcess } from 'node:child_process';
import { parseConfig } from '../src/config/config.ts';
import { type Contestant, startProgram, startStandin } from './contestants.ts';
import { familyCpuSeconds } from './cpu.ts';
import type { DatabaseServer } from './database.ts';
import type { Leftovers } from './leftovers.ts';
import { small } from './loads.ts';
import { durationMs, type Measurement, measure, outcome, turnName } from './measurements.ts';
import type { Progress } from './progress.ts';

/** A service as so many processes. */
export interface Crew {
  readonly title: string;
  readonly kind: 'echo' | 'standin';
  readonly processes: number;
  /** With a rate limit, which never refuses. */
  readonly is_limited: boolean;
}

export interface CrewRounds {
  readonly crew: Crew;
  readonly rounds: readonly Measurement[];
}

export interface WorkersPlan {
  readonly server: DatabaseServer;
  readonly seconds: number;
  readonly rounds: number;
}

const CONNECTIONS = 256;
/** The highest that the service takes. */
const LIMITS = { RATE_LIMIT: '1000000', DETOKENIZE_LIMIT: '1000000', UNKNOWN_TOKEN_LIMIT: '1' };
/** What WORKERS=auto is here. */
const AUTO = parseConfig({ WORKERS: 'auto' }).WORKERS;
const COUNTS = [...new Set([1, 2, AUTO])];

export const LOAD = small('tokenize', CONNECTIONS);
export const CREWS: readonly Crew[] = [
  ...COUNTS.map((processes) => crew('echo', processes, false)),
  ...COUNTS.map((processes) => crew('standin', processes, false)),
  crew('standin', 1, true),
  crew('standin', 2, true),
];

function crew(kind: Crew['kind'], processes: number, is_limited: boolean): Crew {
  const name = kind === 'echo' ? 'bare Fastify echo' : 'Standin';
  const count = `${processes} ${processes === 1 ? 'process' : 'processes'}`;
  const auto = kind === 'standin' && processes === AUTO ? ' (auto)' : '';
  const limit = is_limited ? ', rate limit on' : '';
  return { title: `${name}, ${count}${auto}${limit}`, kind, processes, is_limited };
}

/** What they take of the database server, all pools of all of them full. */
const POOL_CONNECTIONS = 11;
const SPARE_CONNECTIONS = 100;
export const WORKERS_MAX_CONNECTIONS = CREWS.filter(({ kind }) => kind === 'standin').reduce(
  (sum, { processes }) => sum + (processes + 1) * POOL_CONNECTIONS,
  SPARE_CONNECTIONS,
);

export function countWorkersSteps(rounds: number): number {
  return CREWS.length * (1 + rounds);
}

/** A warm-up of all, then rounds in which they take turns. */
export async function measureWorkers(
  plan: WorkersPlan,
  generator: ChildProcess,
  progress: Progress,
  leftovers: Leftovers,
): Promise<CrewRounds[]> {
  const part = leftovers.part();
  const entrants = [];
  for (const crew of CREWS) {
    progress.note(`Starting ${crew.title}`);
    const contestant = await start(crew, plan.server, part);
    entrants.push({ crew, contestant, rounds: [] as Measurement[] });
  }
  let from = 0;
  for (let round = 0; round <= plan.rounds; round++) {
    for (const { crew, contestant, rounds } of entrants) {
      const text = `${crew.title}, ${turnName(round)}: ${LOAD.title}`;
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

function start(crew: Crew, server: DatabaseServer, leftovers: Leftovers): Promise<Contestant> {
  if (crew.kind === 'echo') return startEcho(crew.processes, leftovers);
  return startStandin('server', server, leftovers, {
    WORKERS: String(crew.processes),
    ...(crew.is_limited ? LIMITS : {}),
  });
}

async function startEcho(processes: number, leftovers: Leftovers): Promise<Contestant> {
  const { child, url } = await startProgram('echo.js', [String(processes)], leftovers);
  return {
    name: 'echo',
    url,
    api_key: 'none',
    serviceCpuSeconds: () => familyCpuSeconds(child.pid!),
    databaseCpuSeconds: () => undefined,
  };
}
