import { createHistogram } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, Connection } from './connection.ts';
import { freshRecords, INTERFACES, type Operation, type Target } from './interfaces.ts';

/**
 * The load generator, a separate process that runs one job after another and checks every answer.
 * It takes about as much CPU as wrk with a script for distinct bodies. The benchmark does not use
 * wrk, which only counts statuses.
 */
export interface Job extends Target {
  readonly operation: Operation;
  /** For a random order; undefined: every request has new records. */
  readonly prepared: readonly Request[] | undefined;
  /** New records of a request, and whether they have ten fields. */
  readonly records: number;
  readonly isWide: boolean;
  /** Number of the first new record. */
  readonly from: number;
  /** The job ends early at this number of the next new record. */
  readonly to?: number;
  readonly connections: number;
  readonly durationMs: number;
  /**
   * undefined: each connection sends its next request after its answer. Otherwise the job sends at
   * this interval, regardless of the answers, and latency includes the wait for a free connection.
   */
  readonly intervalMs?: number;
}

/** A body to send, and texts that the right answer contains. */
export type Request = readonly [body: string, expected: readonly string[]];

export interface JobResult {
  /** Right answers. */
  readonly count: number;
  readonly p99Ms: number;
  /** Other answers, by reason: a status, or `wrong answer`. */
  readonly failures: Record<string, number>;
  /** Time from the first request to the last right answer. */
  readonly durationS: number;
  /** A random sample of answers, each with the number of the first of its new records. */
  readonly samples: readonly (readonly [from: number, body: string])[];
  /** Number of the first unused record. */
  readonly next: number;
}

export type Reply = JobResult | { readonly error: string };

const US_PER_MS = 1_000;
const MAX_SAMPLES = 50;
const MAX_LARGE_SAMPLES = 1;
/** An answer that is still missing this long after the end of a job is a failure. */
const DRAIN_TIMEOUT_MS = 60_000;

async function run(job: Job): Promise<JobResult> {
  const { url, connections, durationMs, intervalMs, records, isWide, to = Infinity } = job;
  const { path, secret, body, mark } = INTERFACES[job.speaks];
  const headers = `host: bench\r\n${secret(job.apiKey).join(': ')}\r\ncontent-type: application/json`;
  const head = `POST ${path(job.operation)} HTTP/1.1\r\n${headers}\r\ncontent-length: `;
  const startMs = performance.now();
  const endMs = startMs + durationMs;
  const latencies = createHistogram();
  const samples: [number, string][] = [];
  const failures: Record<string, number> = {};
  let [record, sent, lastRightMs] = [job.from, 0, startMs];

  const { prepared } = job;
  const next = (): Request => {
    if (prepared !== undefined) return prepared[Math.floor(Math.random() * prepared.length)]!;
    const text = body('tokenize', freshRecords(record, records, isWide));
    record += records;
    return [text, [mark]];
  };

  /** Every answer has the same chance to be in the sample (reservoir sampling). */
  const sample = (from: number, answer: string) => {
    const max = records > 1 ? MAX_LARGE_SAMPLES : MAX_SAMPLES;
    const isFull = samples.length === max;
    const place = isFull ? Math.floor(Math.random() * latencies.count) : samples.length;
    if (place < max) samples[place] = [from, answer];
  };
  const take = ({ status, body }: Answer, expected: Request[1], sinceMs: number, from: number) => {
    if (status !== 200 || !expected.every((text) => body.includes(text))) {
      const reason = status === 200 ? 'wrong answer' : String(status);
      failures[reason] = (failures[reason] ?? 0) + 1;
      return;
    }
    lastRightMs = performance.now();
    latencies.record(Math.ceil(US_PER_MS * (lastRightMs - sinceMs)));
    if (prepared === undefined) sample(from, body);
  };
  /** Sends requests on one connection, one at a time, until the end. */
  const useUp = async (connection: Connection): Promise<void> => {
    for (;;) {
      // Latency counts from when a request is due. A timer may fire up to 1 ms early.
      const dueMs = intervalMs === undefined ? performance.now() : startMs + intervalMs * sent++;
      if (dueMs >= endMs || record >= to) return;
      const earlyMs = dueMs - performance.now();
      if (earlyMs > 0) await sleep(earlyMs);
      const from = record;
      const [text, expected] = next();
      const sinceMs = Math.min(dueMs, performance.now());
      const answer = await connection.ask(`${head}${text.length}\r\n\r\n${text}`);
      take(answer, expected, sinceMs, from);
    }
  };

  const opened = Array.from({ length: connections }, () => new Connection(url));
  const tooLate = sleep(durationMs + DRAIN_TIMEOUT_MS, undefined, { ref: false }).then(() => {
    throw new Error(`no answer within ${DRAIN_TIMEOUT_MS} ms after the end`);
  });
  try {
    await Promise.race([Promise.all(opened.map(useUp)), tooLate]);
  } finally {
    for (const connection of opened) connection.close();
  }
  const durationS = (Math.max(lastRightMs, intervalMs ? endMs : 0) - startMs) / 1_000;
  const p99Ms = latencies.percentile(99) / US_PER_MS;
  return { count: latencies.count, p99Ms, failures, durationS, samples, next: record };
}

process.on('message', async (job: Job) => {
  const reply: Reply = await run(job).catch(({ message }) => ({ error: message }));
  process.send!(reply);
});
// Ctrl-C reaches the whole group. The parent ends the generator by closing the channel or by dying.
process.on('SIGINT', () => {});
process.on('disconnect', () => process.exit(0));
