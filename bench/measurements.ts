import type { ChildProcess } from 'node:child_process';
import type { Contestant, ContestantName } from './contestants.ts';
import type { Job, JobResult, Reply } from './job.ts';
import { LivenessProbe } from './liveness.ts';
import { type Load, STEADY_SHARE } from './loads.ts';
import { asPeer, PEER_LOADS } from './peers.ts';
import { FIRST_FRESH_RECORD, type Prepared, verify } from './prepare.ts';
import type { Progress } from './progress.ts';

/** The figures of one contestant under one load in one round. */
export interface Measurement {
  readonly load: Load;
  readonly contestant: ContestantName;
  readonly round: number;
  readonly result: JobResult;
  /** Correct answers a second. */
  readonly rate: number;
  readonly serviceCpuS: number | undefined;
  readonly databaseCpuS: number | undefined;
  /** The longest time of GET /health/live during a watched load: a block of the event loop. */
  readonly heldUpMs: number | undefined;
  /** Tokens that were detokenized and compared after the round. */
  readonly verifiedTokens: number;
}

export interface Plan {
  readonly contestants: readonly (Contestant & { readonly prepared: Prepared })[];
  readonly loads: readonly Load[];
  readonly seconds: number;
  readonly rounds: number;
}

const MAX_WARM_UP_S = 2;

/** Number of steps for Progress. */
export function countSteps(
  loads: readonly Load[],
  names: readonly ContestantName[],
  rounds: number,
): number {
  const steps = loads.map((load) => {
    const turns = names.filter((name) => takesPart(name, load)).length;
    return turns * (1 + rounds + (load.steady === undefined ? 0 : rounds));
  });
  return steps.reduce((sum, count) => sum + count, 0);
}

function takesPart(name: ContestantName, load: Load): boolean {
  return asPeer(name) === undefined || PEER_LOADS.includes(load.name);
}

/** All measurements. Each load begins with a warm-up of all contestants, who then take turns. */
export async function measureAll(
  plan: Plan,
  generator: ChildProcess,
  progress: Progress,
): Promise<Measurement[]> {
  const measurements: Measurement[] = [];
  let from = FIRST_FRESH_RECORD;
  const take = async (
    load: Load,
    contestant: Plan['contestants'][number],
    round: number,
    intervalMs?: number,
  ): Promise<Measurement> => {
    const text = `${contestant.name}, ${turnName(round)}: ${load.title}`;
    progress.begin(text);
    const measurement = await measure(generator, contestant, load, round, {
      ...load.job(contestant.prepared),
      ...(intervalMs === undefined ? {} : { intervalMs }),
      url: contestant.url,
      peer: asPeer(contestant.name),
      api_key: contestant.api_key,
      from,
      duration_ms: durationMs(plan.seconds, round),
    });
    from = measurement.result.next;
    if (round > 0) measurements.push(measurement);
    progress.end(text, outcome(measurement));
    return measurement;
  };
  for (const load of plan.loads) {
    for (let round = 0; round <= plan.rounds; round++) {
      for (const contestant of plan.contestants) {
        if (!takesPart(contestant.name, load)) continue;
        const { rate } = await take(load, contestant, round);
        if (load.steady === undefined || round === 0) continue;
        // Directly afterwards, on the machine in the same state.
        await take(load.steady, contestant, round, 1_000 / (STEADY_SHARE * rate));
      }
    }
  }
  return measurements;
}

export function turnName(round: number): string {
  return round === 0 ? 'warm-up' : `round ${round}`;
}

/** Round 0 is the warm-up. */
export function durationMs(seconds: number, round: number): number {
  return 1_000 * (round === 0 ? Math.min(MAX_WARM_UP_S, seconds / 2) : seconds);
}

/** Runs a job of the generator, and checks a sample of the answers. */
export async function measure(
  generator: ChildProcess,
  contestant: Contestant,
  load: Load,
  round: number,
  job: Job,
): Promise<Measurement> {
  const serviceStartS = contestant.serviceCpuSeconds();
  const databaseStartS = contestant.databaseCpuSeconds();
  const named = (error: Error): never => {
    throw new Error(`${contestant.name}, ${load.title}: ${error.message}`);
  };
  const probe = load.isWatched ? new LivenessProbe(contestant.url) : undefined;
  const result = await generate(generator, job).catch(named);
  const heldUpMs = await probe?.end().catch(named);
  const serviceCpuS = difference(contestant.serviceCpuSeconds(), serviceStartS);
  const databaseCpuS = difference(contestant.databaseCpuSeconds(), databaseStartS);
  return {
    load,
    contestant: contestant.name,
    round,
    result,
    rate: result.right / result.durationS,
    serviceCpuS,
    databaseCpuS,
    heldUpMs,
    verifiedTokens: await verify(contestant, result.samples),
  };
}

function difference(end: number | undefined, start: number | undefined): number | undefined {
  return end === undefined || start === undefined ? undefined : end - start;
}

/** Runs a job of the generator. @throws Error for a lost answer or a dead generator */
export function generate(generator: ChildProcess, job: Job): Promise<JobResult> {
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

export function outcome({ load, rate, result, heldUpMs }: Measurement): string {
  const failed = Object.entries(result.failures).map(([reason, count]) => `${count} x ${reason}`);
  const latency = `p50 ${result.p50_ms.toFixed(1)} ms, p99 ${result.p99_ms.toFixed(1)} ms`;
  const large = load.isBeside ? `, large requests ${result.besideP50Ms.toFixed(0)} ms` : '';
  const heldUp = heldUpMs === undefined ? '' : `, event loop held up ${heldUpMs.toFixed(1)} ms`;
  const trouble = failed.length === 0 ? '' : `, FAILED: ${failed.join(', ')}`;
  return `${Math.round(rate)} requests/s, ${latency}${large}${heldUp}${trouble}`;
}
