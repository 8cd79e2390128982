import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { loop } from '../test/support/loop.ts';
import { query } from '../test/support/postgres.ts';
import {
  type Bench,
  type Contestant,
  type Entry,
  type Prepared,
  startContestant,
} from './contestants.ts';
import { VALUES_PER_RECORD } from './interfaces.ts';
import type { Job, JobResult, Reply } from './load.ts';
import { type Load, STEADY_CONNECTIONS } from './loads.ts';
import { prepare, verify } from './prepare.ts';
import { cpuSeconds, familyCpuSeconds } from './processes.ts';

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
const WATCH_INTERVAL_MS = 5;

/**
 * Starts contestants, checks that they return what they were given, lets them take turns, and
 * removes them afterwards. Without one that fails: the others still have something to tell.
 * @param ready prepares a contestant for the loads
 */
export async function compete(
  bench: Bench,
  entries: readonly Entry[],
  loads: readonly Load[],
  ready: (contestant: Contestant) => Promise<Prepared> = prepare,
): Promise<void> {
  const part = bench.leftovers.part();
  const contestants: Contestant[] = [];
  for (const entry of entries) {
    tell(`Checking ${entry.title}`);
    await bench.results.attempt(entry.title, async () => {
      const contestant = await startContestant(entry, bench, part);
      contestants.push({ ...contestant, prepared: await ready(contestant) });
    });
  }
  for (const load of loads) {
    const isForPeers = load.name === 'tokenize' || load.name === 'detokenize';
    const all = contestants.filter((one) => isForPeers || one.name !== 'openbao');
    // Round 0 is the warm-up. Who begins changes, because the first of a round is the warmest.
    for (let round = 0; round <= bench.flags.rounds; round++)
      await takeRound(bench, load, round % 2 === 1 ? all : all.toReversed(), round);
  }
  await part.removeAll();
}

async function takeRound(bench: Bench, load: Load, all: readonly Contestant[], round: number) {
  const { results, flags } = bench;
  const seconds = round === 0 ? Math.min(MAX_WARM_UP_S, flags.seconds / 2) : flags.seconds;
  const take = (contestant: Contestant, more?: Partial<Job>) =>
    results.attempt(`${contestant.title}, ${load.title}`, async () => {
      const { rate, figures } = await measure(bench, contestant, load, seconds, more);
      if (round > 0) results.add(load.title, contestant.title, round, figures);
      return rate;
    });
  const rates = new Map<string, number | undefined>();
  for (const one of all) rates.set(one.name, await take(one));
  const ours = ['postgres', 'embedded'].map((name) => rates.get(name) ?? Infinity);
  const rate = STEADY_SHARE * Math.min(...ours);
  const isSteady = load.connections === STEADY_CONNECTIONS && load.name !== 'repeat';
  if (!isSteady || !rates.get('echo') || rate === 0 || rate === Infinity || round === 0) return;
  for (const one of all) {
    // Who cannot keep up would be measured by its queue.
    const isAble = (rates.get(one.name) ?? 0) * MAX_STEADY_SHARE >= rate;
    if (isAble) await take(one, { intervalMs: 1_000 / rate });
  }
}

/**
 * Runs one job of the generator, and checks a sample of the answers. A checkpoint begins with it, the
 * worst case for PostgreSQL: it writes what is dirty, and each first write of a page logs the whole
 * page.
 */
export async function measure(
  bench: Bench,
  contestant: Contestant,
  load: Load,
  seconds: number,
  more: Partial<Job> = {},
) {
  const { prepared, title, url, databaseUrl } = contestant;
  const { name, records } = load;
  const job: Job = {
    ...contestant,
    ...load,
    durationMs: 1_000 * seconds,
    operation: name === 'detokenize' ? 'detokenize' : 'tokenize',
    prepared: name === 'detokenize' || name === 'repeat' ? prepared![name] : undefined,
    ...{ from: bench.nextRecord, ...more },
  };
  const start = await usage(contestant);
  const checkpoint = databaseUrl === undefined ? undefined : query(databaseUrl, 'checkpoint');
  // Its failure is told after the end of the job.
  checkpoint?.catch(() => {});
  // How long the event loop is blocked, from a caller's view. nodejsEventloopLagMaxSeconds is no
  // substitute, because it includes the 10 ms interval of its timer.
  let longestMs: number | undefined;
  const askHealth = async () => {
    const sentMs = performance.now();
    await (await fetch(`${url}/health/live`)).arrayBuffer();
    longestMs = Math.max(longestMs ?? 0, performance.now() - sentMs);
    await sleep(WATCH_INTERVAL_MS);
  };
  const watch = loop(askHealth, name === 'bulk' ? 1 : 0);
  const result = await generate(bench.generator, job).finally(watch.stop);
  await checkpoint;
  const end = await usage(contestant);
  const what = `${title}, ${load.title}`;
  bench.nextRecord = result.next;
  bench.results.count(what, result);
  bench.results.verifiedTokens += await verify(contestant, result, records);
  const rate = result.count / result.durationS;
  tell(`${what}: ${Math.round(rate)}/s, p99 ${result.p99Ms.toFixed(1)} ms`);
  if (job.intervalMs !== undefined)
    return { rate, figures: { [STEADY_P99]: result.p99Ms, [STEADY_RATE]: 1_000 / job.intervalMs } };
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
  return { rate, figures };
}

/** What a contestant has used so far; NaN: not known. */
async function usage({ pid, databasePid, databaseUrl }: Contestant) {
  const sql = "select pg_current_wal_insert_lsn() - '0/0' as bytes";
  return {
    serviceCpuS: await cpuSeconds(pid),
    databaseCpuS: databasePid === undefined ? NaN : await familyCpuSeconds(databasePid),
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
      else resolve(reply);
    });
    generator.send(job, (error) => error && reject(error));
  });
}

/** Tells the progress of a run, with the time since its start. */
export function tell(text: string): void {
  console.error(`[${Math.round(performance.now() / 1_000)} s] ${text}`);
}
