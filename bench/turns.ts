import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { query } from '../test/support/postgres.ts';
import type { Contestant } from './contestants.ts';
import type { DatabaseServer } from './database.ts';
import { ADAPTERS } from './interfaces.ts';
import type { Job, JobResult, Reply } from './job.ts';
import type { Leftovers } from './leftovers.ts';
import { watchLiveness } from './liveness.ts';
import { type Load, STEADY_SHARE } from './loads.ts';
import { type Prepared, prepare, verify } from './prepare.ts';
import type { Results } from './results.ts';

/** What all parts of a run share. */
export interface Bench {
  readonly seconds: number;
  readonly rounds: number;
  readonly results: Results;
  readonly generator: ChildProcess;
  readonly server: DatabaseServer | undefined;
  readonly leftovers: Leftovers;
  /** Number of the next fresh record. */
  nextRecord: number;
}

/** A contestant that is ready, and has shown that it returns what it was given. */
export interface Entrant {
  readonly contestant: Contestant;
  readonly prepared: Prepared;
}

/** One contestant under one load for some seconds. */
export interface Turn {
  readonly result: JobResult;
  /** Correct answers a second. */
  readonly rate: number;
  /** NaN: not known, also for the others. */
  readonly serviceCpuS: number;
  readonly databaseCpuS: number;
  readonly walBytes: number;
  /** The longest time of GET /health/live during a watched load: a block of the event loop. */
  readonly heldUpMs: number | undefined;
}

const MAX_WARM_UP_S = 2;

/** Starts a contestant whose processes are in this part of the leftovers. */
export type Starter = (part: Leftovers) => Promise<Contestant>;

/**
 * Starts contestants, checks that they return what they were given, and removes them afterwards.
 * @param ready prepares a contestant for the loads
 */
export async function withEntrants(
  bench: Bench,
  starters: readonly Starter[],
  use: (entrants: readonly Entrant[]) => Promise<void>,
  ready: (contestant: Contestant, folder: string) => Promise<Prepared> = prepare,
): Promise<void> {
  const part = bench.leftovers.part();
  const folder = mkdtempSync(join(tmpdir(), 'standin-bench-'));
  part.add(async () => rmSync(folder, { recursive: true, force: true }));
  const entrants: Entrant[] = [];
  for (const start of starters) {
    const contestant = await start(part);
    tell(`Checking ${contestant.title}`);
    entrants.push({ contestant, prepared: await ready(contestant, folder) });
  }
  await use(entrants);
  await part.removeAll();
}

/** Each load begins with a warm-up of all contestants, which then take turns. */
export async function takeTurns(
  bench: Bench,
  loads: readonly Load[],
  entrants: readonly Entrant[],
): Promise<void> {
  for (const load of loads) {
    for (let round = 0; round <= bench.rounds; round++) {
      for (const entrant of entrants) {
        if (takesPart(entrant.contestant, load)) await takeTurn(bench, load, entrant, round);
      }
    }
  }
}

function takesPart({ peer }: Contestant, { name }: Load): boolean {
  return peer === undefined || ADAPTERS[peer].loads.includes(name);
}

async function takeTurn(bench: Bench, load: Load, entrant: Entrant, round: number): Promise<void> {
  const { contestant, prepared } = entrant;
  const job = load.job(prepared);
  const seconds = secondsOf(bench, round);
  if (load.isAfterCheckpoint) await query(contestant.vault!.databaseUrl, 'checkpoint');
  const turn = await measure(bench, contestant, load, seconds, job);
  if (round === 0) return;
  bench.results.add(load.title, contestant.title, round, load.figures(turn));
  if (!load.isSteady) return;
  // Directly afterwards, on the machine in the same state.
  const intervalMs = 1_000 / (STEADY_SHARE * turn.rate);
  const steady = await measure(bench, contestant, load, seconds, { ...job, intervalMs });
  bench.results.add(load.title, contestant.title, round, steadyFigures(steady));
}

export const STEADY_P99 = `at ${100 * STEADY_SHARE} %: p99 ms`;

function steadyFigures({ result: { right } }: Turn) {
  return { [`at ${100 * STEADY_SHARE} %: p50 ms`]: right.p50Ms, [STEADY_P99]: right.p99Ms };
}

/** Round 0 is the warm-up. */
export function secondsOf({ seconds }: Bench, round: number): number {
  return round === 0 ? Math.min(MAX_WARM_UP_S, seconds / 2) : seconds;
}

/** Runs one job of the generator, and checks a sample of the answers. */
export async function measure(
  bench: Bench,
  contestant: Contestant,
  { title, connections, isWatched }: Pick<Load, 'title' | 'connections' | 'isWatched'>,
  seconds: number,
  job: Pick<Job, 'operation' | 'source'> & Partial<Job>,
  mayShed = false,
): Promise<Turn> {
  const what = `${contestant.title}, ${title}`;
  const { url, peer, apiKey } = contestant;
  const whole = { url, peer, apiKey, connections, from: bench.nextRecord, ...job };
  const start = await usage(contestant);
  const endWatch = isWatched ? watchLiveness(url) : undefined;
  const named = (error: Error): never => {
    throw new Error(`${what}: ${error.message}`);
  };
  const sent = { ...whole, durationMs: 1_000 * seconds };
  const result = await generate(bench.generator, sent).catch(named);
  const heldUpMs = await endWatch?.().catch(named);
  if (result.right.count === 0) named(new Error(`no right answer: ${JSON.stringify(result)}`));
  const end = await usage(contestant);
  const used = (name: keyof typeof end) => end[name] - start[name];
  bench.nextRecord = result.next;
  bench.results.count(what, result, mayShed);
  bench.results.verifiedTokens += await verify(contestant, result.samples);
  const rate = result.right.count / result.durationS;
  tell(`${what}: ${Math.round(rate)}/s, p99 ${result.right.p99Ms.toFixed(1)} ms`);
  return {
    ...{ result, rate, heldUpMs },
    ...{ serviceCpuS: used('serviceCpuS'), databaseCpuS: used('databaseCpuS') },
    walBytes: used('walBytes'),
  };
}

/** What a contestant has used so far; NaN: not known. */
async function usage({ serviceCpuS, databaseCpuS, vault }: Contestant) {
  const sql = "select pg_current_wal_insert_lsn() - '0/0' as bytes";
  const walBytes = vault ? Number((await query(vault.databaseUrl, sql))[0]!.bytes) : NaN;
  return { serviceCpuS: serviceCpuS(), databaseCpuS: databaseCpuS(), walBytes };
}

/** @throws Error for a lost answer or a dead generator */
function generate(generator: ChildProcess, job: Job): Promise<JobResult> {
  return new Promise((resolve, reject) => {
    const onExit = () => reject(new Error('the load generator ended'));
    generator.once('exit', onExit);
    generator.once('message', (reply: Reply) => {
      generator.off('exit', onExit);
      if ('error' in reply) reject(new Error(reply.error));
      else resolve(reply.result);
    });
    generator.send(job);
  });
}

/** Tells the progress of a run, with the time since its start. */
export function tell(text: string): void {
  const seconds = Math.round(performance.now() / 1_000);
  const minutes = Math.floor(seconds / 60);
  process.stderr.write(`[${minutes}:${String(seconds % 60).padStart(2, '0')}] ${text}\n`);
}
