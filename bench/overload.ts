import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Standin, startProgram, startStandin } from './contestants.ts';
import type { DatabaseServer } from './database.ts';
import type { FloodJob, FloodReply, FloodResult } from './flood-job.ts';
import type { Leftovers } from './leftovers.ts';
import { small } from './loads.ts';
import { measure, turnName } from './measurements.ts';
import { FIRST_FRESH_RECORD, type Prepared, prepare, verify } from './prepare.ts';
import type { Progress } from './progress.ts';

/** Multiple of the rate that the service has just reached. */
export const FLOOD_FACTOR = 3;
export const AFTER_SHARE = 0.5;
/** Time for the service to recover. */
export const RECOVERY_MS = 2_000;
const CONNECTIONS = 256;
/** More connections than waiting requests, as long as the service answers quickly. */
const FLOOD_CONNECTIONS = 2_000;

export type Operation = FloodJob['operation'];
export const OPERATIONS: readonly Operation[] = ['tokenize', 'detokenize'];

/** Three times the capacity, and the recovery, in one round. */
export interface OverloadRound {
  readonly operation: Operation;
  /** Correct answers a second in a closed loop. */
  readonly peakRate: number;
  readonly flood: FloodResult;
  readonly after: FloodResult;
}

export interface OverloadPlan {
  readonly server: DatabaseServer;
  readonly seconds: number;
  readonly rounds: number;
}

export function countOverloadSteps(rounds: number): number {
  return OPERATIONS.length * (1 + rounds);
}

/** Each round measures the peak first, because the machine's speed varies. */
export async function measureOverload(
  plan: OverloadPlan,
  generator: ChildProcess,
  progress: Progress,
  leftovers: Leftovers,
): Promise<OverloadRound[]> {
  const part = leftovers.part();
  const standin = await startStandin('server', plan.server, part);
  const { child: flooder } = await startProgram('flood.js', [], part);
  const folder = mkdtempSync(join(tmpdir(), 'standin-bench-'));
  part.add(async () => rmSync(folder, { recursive: true, force: true }));
  const prepared = await prepare(standin, folder);
  const rounds: OverloadRound[] = [];
  let from = FIRST_FRESH_RECORD;
  for (const operation of OPERATIONS) {
    for (let round = 0; round <= plan.rounds; round++) {
      const text = `overload, ${turnName(round)}: ${operation}`;
      progress.begin(text);
      const seconds = round === 0 ? Math.min(2, plan.seconds) : plan.seconds;
      const crew = { standin, prepared, generator, flooder };
      const result = await measureRound(crew, operation, seconds, from);
      from = result.after.next;
      if (round > 0) rounds.push(result);
      progress.end(text, outcome(result));
    }
  }
  await part.removeAll();
  return rounds;
}

interface Crew {
  readonly standin: Standin;
  readonly prepared: Prepared;
  readonly generator: ChildProcess;
  readonly flooder: ChildProcess;
}

async function measureRound(
  { standin, prepared, generator, flooder }: Crew,
  operation: Operation,
  seconds: number,
  from: number,
): Promise<OverloadRound> {
  const { url, api_key: apiKey } = standin;
  const load = small(operation, CONNECTIONS);
  const { source } = load.job(prepared);
  const durationMs = 1_000 * seconds;
  const peak = await measure(generator, standin, load, 0, {
    ...load.job(prepared),
    ...{ url, api_key: apiKey, from, duration_ms: durationMs },
  });
  const job = { url, api_key: apiKey, operation, source, connections: FLOOD_CONNECTIONS };
  const rate = FLOOD_FACTOR * peak.rate;
  const flood = await send(flooder, {
    ...job,
    from: peak.result.next,
    rate,
    duration_ms: durationMs,
  });
  const gentle = { ...job, rate: AFTER_SHARE * peak.rate };
  const recovery = { ...gentle, from: flood.next, duration_ms: RECOVERY_MS };
  const { next } = await send(flooder, recovery);
  const after = await send(flooder, { ...gentle, from: next, duration_ms: durationMs / 2 });
  await verify(standin, flood.samples);
  return { operation, peakRate: peak.rate, flood, after };
}

function send(flooder: ChildProcess, job: FloodJob): Promise<FloodResult> {
  return new Promise((resolve, reject) => {
    const onExit = () => reject(new Error('the flood ended'));
    flooder.once('exit', onExit);
    flooder.once('message', (reply: FloodReply) => {
      flooder.off('exit', onExit);
      if ('error' in reply) reject(new Error(reply.error));
      else resolve(reply.result);
    });
    flooder.send(job);
  });
}

/** Correct answers a second under the flood, as a share of the rate without the flood. */
export function goodput({ peakRate, flood }: OverloadRound): number {
  return flood.ok.count / flood.seconds / peakRate;
}

function outcome(round: OverloadRound): string {
  const { peakRate, flood, after } = round;
  const { ok, shed } = flood;
  const ms = (number: number) => `${number.toFixed(1)} ms`;
  const failed = { ...flood.failures, ...after.failures };
  return [
    `peak ${Math.round(peakRate)}/s`,
    `goodput ${(100 * goodput(round)).toFixed(0)} %`,
    `200: p50 ${ms(ok.p50_ms)}, p99 ${ms(ok.p99_ms)}`,
    `503: ${shed.count}, p50 ${ms(shed.p50_ms)}, p99 ${ms(shed.p99_ms)}`,
    `generator late ${ms(flood.lateMs)}`,
    `after: p99 ${ms(after.ok.p99_ms)}, ${after.shed.count} x 503`,
    ...(Object.keys(failed).length > 0 || flood.unanswered > 0
      ? [`FAILED: ${JSON.stringify(failed)}, ${flood.unanswered} unanswered`]
      : []),
  ].join('; ');
}
