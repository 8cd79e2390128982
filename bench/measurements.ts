import type { ChildProcess } from 'node:child_process';
import type { Contestant, ContestantName } from './contestants.ts';
import type { Job, JobResult, Reply } from './job.ts';
import type { Load } from './loads.ts';
import { asPeer, PEER_LOADS } from './peers.ts';
import { FIRST_FRESH_RECORD, type Prepared, verify } from './prepare.ts';
import type { Progress } from './progress.ts';

/** One contestant under one load for one round. */
export interface Measurement {
  readonly load: Load;
  readonly contestant: ContestantName;
  readonly round: number;
  readonly result: JobResult;
  /** Right answers a second. */
  readonly rate: number;
  readonly service_cpu_s: number | undefined;
  readonly database_cpu_s: number | undefined;
  /** Tokens of the round that were detokenized and compared after it. */
  readonly verified_tokens: number;
}

export interface Plan {
  readonly contestants: readonly (Contestant & { readonly prepared: Prepared })[];
  readonly loads: readonly Load[];
  readonly seconds: number;
  readonly rounds: number;
}

const MAX_WARM_UP_S = 2;

/** Steps that Progress is told of. */
export function countSteps(
  loads: readonly Load[],
  names: readonly ContestantName[],
  rounds: number,
): number {
  const turns = loads.flatMap((load) => names.filter((name) => takesPart(name, load)));
  return turns.length * (1 + rounds);
}

function takesPart(name: ContestantName, load: Load): boolean {
  return asPeer(name) === undefined || PEER_LOADS.includes(load.name);
}

/** All measurements: per load a warm-up of everybody, then rounds in which the contestants take turns. */
export async function measureAll(
  plan: Plan,
  generator: ChildProcess,
  progress: Progress,
): Promise<Measurement[]> {
  const measurements: Measurement[] = [];
  let from = FIRST_FRESH_RECORD;
  for (const load of plan.loads) {
    for (let round = 0; round <= plan.rounds; round++) {
      for (const contestant of plan.contestants) {
        if (!takesPart(contestant.name, load)) continue;
        const turn = round === 0 ? 'warm-up' : `round ${round}`;
        const text = `${contestant.name}, ${turn}: ${load.title}`;
        progress.begin(text);
        const seconds = round === 0 ? Math.min(MAX_WARM_UP_S, plan.seconds / 2) : plan.seconds;
        const job: Job = {
          ...load.job(contestant.prepared),
          url: contestant.url,
          peer: asPeer(contestant.name),
          api_key: contestant.api_key,
          from,
          duration_ms: seconds * 1_000,
        };
        const measurement = await measure(generator, contestant, load, round, job);
        from = measurement.result.next;
        if (round > 0) measurements.push(measurement);
        progress.end(text, outcome(measurement));
      }
    }
  }
  return measurements;
}

async function measure(
  generator: ChildProcess,
  contestant: Contestant,
  load: Load,
  round: number,
  job: Job,
): Promise<Measurement> {
  const service_start_s = contestant.serviceCpuSeconds();
  const database_start_s = contestant.databaseCpuSeconds();
  const result = await generate(generator, job).catch((error: Error) => {
    throw new Error(`${contestant.name}, ${load.title}: ${error.message}`);
  });
  const service_cpu_s = difference(contestant.serviceCpuSeconds(), service_start_s);
  const database_cpu_s = difference(contestant.databaseCpuSeconds(), database_start_s);
  return {
    load,
    contestant: contestant.name,
    round,
    result,
    rate: result.right / result.duration_s,
    service_cpu_s,
    database_cpu_s,
    verified_tokens: await verify(contestant, result.samples),
  };
}

function difference(end: number | undefined, start: number | undefined): number | undefined {
  return end === undefined || start === undefined ? undefined : end - start;
}

/** Has the generator do a job. @throws Error when an answer or the generator is lost */
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

function outcome({ load, rate, result }: Measurement): string {
  const failed = Object.entries(result.failures).map(([reason, count]) => `${count} x ${reason}`);
  const latency = `p50 ${result.p50_ms.toFixed(1)} ms, p99 ${result.p99_ms.toFixed(1)} ms`;
  const large = load.is_beside ? `, large requests ${result.beside_p50_ms.toFixed(0)} ms` : '';
  const trouble = failed.length === 0 ? '' : `, FAILED: ${failed.join(', ')}`;
  return `${Math.round(rate)} requests/s, ${latency}${large}${trouble}`;
}
