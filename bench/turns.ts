import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { query } from '../test/support/postgres.ts';
import { VALUES_PER_RECORD } from './bodies.ts';
import type { Bench, Contestant, ContestantName, Entry } from './contestants.ts';
import { startContestant, TITLES } from './contestants.ts';
import type { Job, JobResult, Reply } from './load.ts';
import { type Load, STEADY_CONNECTIONS } from './loads.ts';
import { type Prepared, prepare, verify } from './prepare.ts';
import { cpuSeconds, familyCpuSeconds } from './processes.ts';
import type { Figures } from './results.ts';

/** A contestant that is ready, and has shown that it returns what it was given. */
export interface Entrant {
  readonly contestant: Contestant;
  readonly prepared?: Prepared;
}

/** The column of the aim in CPU. */
export const CPU = 'CPU of the service, µs a request';
/** The column of the longest answer of GET /health/live. */
export const LONGEST = 'longest /health/live ms';
export const STEADY_P99 = 'at one rate: p99 ms';
const STEADY_RATE = 'the rate';
/** The common rate is this share of what the slower of ours has just reached. */
export const STEADY_SHARE = 0.7;
const MAX_STEADY_SHARE = 0.9;
const MAX_WARM_UP_S = 2;

/**
 * Starts contestants, checks that they return what they were given, lets them take turns, and
 * removes them afterwards. Without one that fails: the others still have something to tell.
 * @param ready prepares a contestant for the loads
 */
export async function compete(
  bench: Bench,
  entries: readonly Entry[],
  loads: readonly Load[],
  ready: (contestant: Contestant, folder: string) => Promise<Prepared> = prepare,
): Promise<void> {
  const part = bench.leftovers.part();
  const folder = mkdtempSync(join(tmpdir(), 'standin-bench-'));
  part.add(async () => rmSync(folder, { recursive: true, force: true }));
  const entrants: Entrant[] = [];
  for (const entry of entries) {
    const title = entry.title ?? TITLES[entry.name];
    tell(`Checking ${title}`);
    await bench.results.attempt(title, async () => {
      const contestant = await startContestant(entry, bench, folder, part);
      entrants.push({ contestant, prepared: await ready(contestant, folder) });
    });
  }
  for (const load of loads) {
    const isForPeers = load.name === 'tokenize' || load.name === 'detokenize';
    const all = entrants.filter(({ contestant }) => isForPeers || contestant.name !== 'openbao');
    // Round 0 is the warm-up. Who begins changes, because the first of a round is the warmest.
    for (let round = 0; round <= bench.flags.rounds; round++)
      await takeRound(bench, load, round % 2 === 1 ? all : all.toReversed(), round);
  }
  await part.removeAll();
}

async function takeRound(bench: Bench, load: Load, entrants: readonly Entrant[], round: number) {
  const { results, flags } = bench;
  const seconds = round === 0 ? Math.min(MAX_WARM_UP_S, flags.seconds / 2) : flags.seconds;
  const rates = new Map<ContestantName, number>();
  const take = (entrant: Entrant, use: (turn: Turn) => Figures, more?: Partial<Job>) =>
    results.attempt(`${entrant.contestant.title}, ${load.title}`, async () => {
      const figures = use(await measure(bench, entrant, load, seconds, more));
      if (round > 0) results.add(load.title, entrant.contestant.title, round, figures);
    });
  for (const entrant of entrants) {
    await take(entrant, ({ rate, figures }) => {
      rates.set(entrant.contestant.name, rate);
      return figures;
    });
  }
  const ours = (['postgres', 'embedded'] as const).map((name) => rates.get(name) ?? Infinity);
  const rate = STEADY_SHARE * Math.min(...ours);
  const isSteady = load.connections === STEADY_CONNECTIONS && load.name !== 'repeat';
  if (!isSteady || !rates.has('echo') || rate === 0 || rate === Infinity || round === 0) return;
  for (const entrant of entrants) {
    // Who cannot keep up would be measured by its queue.
    if ((rates.get(entrant.contestant.name) ?? 0) * MAX_STEADY_SHARE < rate) continue;
    const figures = ({ result }: Turn) => ({ [STEADY_P99]: result.p99Ms, [STEADY_RATE]: rate });
    await take(entrant, figures, { intervalMs: 1_000 / rate });
  }
}

/** One contestant under one load for some seconds. */
type Turn = Awaited<ReturnType<typeof measure>>;

/**
 * Runs one job of the generator, and checks a sample of the answers. A checkpoint begins with it, the
 * worst case for PostgreSQL: it writes what is dirty, and each first write of a page logs the whole
 * page.
 */
export async function measure(
  bench: Bench,
  { contestant, prepared }: Entrant,
  load: Load,
  seconds: number,
  more: Partial<Job> = {},
) {
  const { speaks, url, apiKey, isWide, databaseUrl } = contestant;
  const { name, connections, records } = load;
  const job: Job = {
    ...{ speaks, url, apiKey, isWide, connections, records, durationMs: 1_000 * seconds },
    operation: name === 'detokenize' ? 'detokenize' : 'tokenize',
    file: name === 'detokenize' || name === 'repeat' ? prepared?.[name] : undefined,
    ...{ from: bench.nextRecord, ...more },
  };
  const start = await usage(contestant);
  let isOver = false;
  const beside = Promise.all([
    name === 'bulk' ? longestAnswerMs(url, () => isOver) : undefined,
    databaseUrl === undefined ? undefined : query(databaseUrl, 'checkpoint'),
  ]);
  // Its failure is told after the end of the job.
  beside.catch(() => {});
  const result = await generate(bench.generator, job).finally(() => {
    isOver = true;
  });
  const [longestMs] = await beside;
  const end = await usage(contestant);
  const what = `${contestant.title}, ${load.title}`;
  bench.nextRecord = result.next;
  bench.results.count(what, result);
  bench.results.verifiedTokens += await verify(contestant, result.samples, records);
  const rate = result.count / result.durationS;
  tell(`${what}: ${Math.round(rate)}/s, p99 ${result.p99Ms.toFixed(1)} ms`);
  const [unit, units] = records > 1 ? ['value', records * VALUES_PER_RECORD] : ['request', 1];
  const each = (used: keyof typeof end) => (end[used] - start[used]) / (result.count * units);
  const figures = {
    [`${unit}s/s`]: rate * units,
    'p99 ms': result.p99Ms,
    [CPU.replace('request', unit)]: 1e6 * each('serviceCpuS'),
    'CPU of the database': 1e6 * each('databaseCpuS'),
    [`WAL bytes a ${unit}`]: each('walBytes'),
    [LONGEST]: longestMs,
  };
  return { result, rate, figures };
}

/** What a contestant has used so far; NaN: not known. */
async function usage({ pid, databasePid, databaseUrl }: Contestant) {
  const sql = "select pg_current_wal_insert_lsn() - '0/0' as bytes";
  return {
    serviceCpuS: cpuSeconds(pid),
    databaseCpuS: databasePid === undefined ? NaN : familyCpuSeconds(databasePid),
    walBytes: databaseUrl === undefined ? NaN : Number((await query(databaseUrl, sql))[0]!.bytes),
  };
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
    generator.send(job, (error) => error && reject(error));
  });
}

const WATCH_INTERVAL_MS = 5;

/**
 * Asks GET /health/live again and again, from this process. The longest time of an answer shows how
 * long the event loop is blocked, from a caller's view. nodejsEventloopLagMaxSeconds is no substitute,
 * because it includes the 10 ms interval of its timer.
 */
async function longestAnswerMs(url: string, isOver: () => boolean): Promise<number> {
  let longestMs = 0;
  while (!isOver()) {
    const sentMs = performance.now();
    await (await fetch(`${url}/health/live`)).arrayBuffer();
    longestMs = Math.max(longestMs, performance.now() - sentMs);
    await new Promise((resolve) => setTimeout(resolve, WATCH_INTERVAL_MS));
  }
  return longestMs;
}

/** Tells the progress of a run, with the time since its start. */
export function tell(text: string): void {
  const seconds = Math.round(performance.now() / 1_000);
  const minutes = Math.floor(seconds / 60);
  process.stderr.write(`[${minutes}:${String(seconds % 60).padStart(2, '0')}] ${text}\n`);
}
