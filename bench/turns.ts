import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { query } from '../test/support/postgres.ts';
import type { Contestant } from './contestants.ts';
import type { DatabaseServer } from './database.ts';
import type { Leftovers } from './leftovers.ts';
import { watchLiveness } from './liveness.ts';
import type { Job, JobResult, Reply } from './load.ts';
import type { Load } from './loads.ts';
import { type Prepared, prepare, verify } from './prepare.ts';
import type { Figures, Results } from './results.ts';

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
    const all = entrants.filter(({ contestant }) => takesPart(contestant, load));
    for (let round = 0; round <= bench.rounds; round++) await takeRound(bench, load, all, round);
  }
}

function takesPart({ peer }: Contestant, { name }: Load): boolean {
  return peer === undefined || name === 'tokenize' || name === 'detokenize';
}

/** Round 0 is the warm-up. */
async function takeRound(
  bench: Bench,
  load: Load,
  entrants: readonly Entrant[],
  round: number,
): Promise<void> {
  const add = ({ title }: Contestant, figures: Figures) => {
    if (round > 0) bench.results.add(load.title, title, round, figures);
  };
  const seconds = round === 0 ? Math.min(MAX_WARM_UP_S, bench.seconds / 2) : bench.seconds;
  const rates: number[] = [];
  for (const { contestant, prepared } of entrants) {
    const turn = await measure(bench, contestant, load, seconds, load.job(prepared), true);
    rates.push(turn.rate);
    add(contestant, load.figures(turn));
  }
  if (!load.isSteady || round === 0) return;
  const ours = rates.filter((_, i) => SUBJECTS.includes(entrants[i]!.contestant.name));
  const rate = STEADY_SHARE * Math.min(...(ours.length > 0 ? ours : rates));
  for (const [i, { contestant, prepared }] of entrants.entries()) {
    // Who cannot keep up would be measured by its queue.
    if (rates[i]! * MAX_STEADY_SHARE < rate) continue;
    const job = { ...load.job(prepared), intervalMs: 1_000 / rate };
    const { result } = await measure(bench, contestant, load, seconds, job, true);
    add(contestant, {
      [STEADY_P50]: result.p50Ms,
      [STEADY_P99]: result.p99Ms,
      [STEADY_RATE]: rate,
    });
  }
}

/** The common rate is this share of what the slower of ours has just reached. */
export const STEADY_SHARE = 0.7;
const MAX_STEADY_SHARE = 0.9;
const SUBJECTS: readonly string[] = ['postgres', 'embedded'];
const STEADY_P50 = 'at one rate: p50 ms';
export const STEADY_P99 = 'at one rate: p99 ms';
const STEADY_RATE = 'the rate';

/**
 * Runs one job of the generator, and checks a sample of the answers.
 * @param isHard whether a checkpoint begins with the job, the worst case for PostgreSQL: it writes
 * what is dirty, and each first write of a page logs the whole page
 */
export async function measure(
  bench: Bench,
  contestant: Contestant,
  { title, connections, isWatched }: Pick<Load, 'title' | 'connections' | 'isWatched'>,
  seconds: number,
  job: Pick<Job, 'operation' | 'source'> & Partial<Job>,
  isHard = false,
): Promise<Turn> {
  const what = `${contestant.title}, ${title}`;
  const { url, peer, apiKey } = contestant;
  const records = job.source.kind === 'fresh' ? job.source.records : 0;
  const whole = { url, peer, apiKey, connections, from: bench.nextRecord, ...job };
  const start = await usage(contestant);
  const { vault } = contestant;
  const checkpoint = isHard && vault ? query(vault.databaseUrl, 'checkpoint') : undefined;
  const endWatch = isWatched ? watchLiveness(url) : undefined;
  const named = (error: Error): never => {
    throw new Error(`${what}: ${error.message}`);
  };
  const sent = { ...whole, durationMs: 1_000 * seconds };
  const result = await generate(bench.generator, sent).catch(named);
  await checkpoint;
  const heldUpMs = await endWatch?.().catch(named);
  if (result.count === 0) named(new Error(`no right answer: ${JSON.stringify(result)}`));
  const end = await usage(contestant);
  const used = (name: keyof typeof end) => end[name] - start[name];
  bench.nextRecord = result.next;
  bench.results.count(what, result);
  bench.results.verifiedTokens += await verify(contestant, result.samples, records);
  const rate = result.count / result.durationS;
  tell(`${what}: ${Math.round(rate)}/s, p99 ${result.p99Ms.toFixed(1)} ms`);
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
