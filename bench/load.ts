import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { freshRecords } from './bodies.ts';
import { announce } from './child.ts';
import { type Answer, Connection } from './connection.ts';
import { adapterOf, isSuccess, type Operation, requestHead, type Target } from './interfaces.ts';
import { quantile } from './numbers.ts';

/**
 * The load generator, a separate process that runs one job after another and checks every answer.
 * It takes about as much CPU as wrk with a script for distinct bodies. The benchmark does not use
 * wrk, which only counts statuses.
 */
export interface Job extends Target {
  readonly url: string;
  readonly operation: Operation;
  readonly source: Source;
  /** Number of the first fresh record. */
  readonly from: number;
  /** The job ends early at this number of the next fresh record. */
  readonly to?: number;
  readonly connections: number;
  readonly durationMs: number;
  /**
   * undefined: each connection sends its next request after its answer. Otherwise the job sends at
   * this interval, regardless of the answers, and latency includes the wait for a free connection.
   */
  readonly intervalMs?: number;
}

export type Source =
  /** Every request has this many new records. */
  | { readonly kind: 'fresh'; readonly records: number; readonly isWide?: boolean }
  /** A JSON file with a list of prepared requests, for a random order. */
  | { readonly kind: 'file'; readonly file: string };

/** A body to send, and texts that the right answer contains. */
export type Request = readonly [body: string, expected: readonly string[]];

export interface JobResult {
  /** Right answers. */
  readonly count: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Other answers, by reason: a status, or `wrong answer`. */
  readonly failures: Record<string, number>;
  /** Time from the first request to the last right answer. */
  readonly durationS: number;
  /** A random sample of answers, each with the number of the first of its fresh records. */
  readonly samples: readonly (readonly [from: number, body: string])[];
  /** Number of the first unused record. */
  readonly next: number;
}

export type Reply = { readonly result: JobResult } | { readonly error: string };

const MAX_SAMPLES = 50;
const MAX_LARGE_SAMPLES = 1;
/** An answer that is still missing this long after the end of a job is a failure. */
const DRAIN_TIMEOUT_MS = 60_000;

class Run {
  readonly #job: Job;
  readonly #head: string;
  readonly #next: () => Request;
  readonly #latenciesMs: number[] = [];
  readonly #samples: [number, string][] = [];
  readonly #failures: Record<string, number> = {};
  readonly #startMs = performance.now();
  readonly #endMs: number;
  #record: number;
  #sent = 0;
  #lastRightMs = 0;

  constructor(job: Job) {
    this.#job = job;
    this.#endMs = this.#startMs + job.durationMs;
    this.#record = job.from;
    this.#head = requestHead(job, job.operation);
    this.#next = job.source.kind === 'file' ? prepared(job.source.file) : this.#fresh(job.source);
  }

  #fresh({ records, isWide }: Source & { kind: 'fresh' }): () => Request {
    const { body, mark } = adapterOf(this.#job.peer);
    const expected = [mark.tokenize];
    return () => {
      const sent = body('tokenize', freshRecords(this.#record, records, isWide));
      this.#record += records;
      return [sent, expected];
    };
  }

  async run(): Promise<JobResult> {
    const { url, connections, durationMs, intervalMs } = this.#job;
    const all = Array.from({ length: connections }, () => new Connection(url));
    const abort = new AbortController();
    const tooLate = sleep(durationMs + DRAIN_TIMEOUT_MS, undefined, { signal: abort.signal }).then(
      () => Promise.reject(new Error(`no answer within ${DRAIN_TIMEOUT_MS} ms after the end`)),
      () => {},
    );
    try {
      await Promise.race([Promise.all(all.map((one) => this.#useUp(one))), tooLate]);
    } finally {
      abort.abort();
      for (const connection of all) connection.close();
    }
    const endMs = intervalMs === undefined ? 0 : this.#endMs;
    return this.#result((Math.max(this.#lastRightMs, endMs) - this.#startMs) / 1_000);
  }

  /** Sends requests on one connection, one at a time, until the end. */
  async #useUp(connection: Connection): Promise<void> {
    for (;;) {
      const dueMs = this.#dueMs();
      if (dueMs >= this.#endMs || this.#record >= (this.#job.to ?? Infinity)) return;
      const earlyMs = dueMs - performance.now();
      if (earlyMs > 0) await sleep(earlyMs);
      const from = this.#record;
      const [body, expected] = this.#next();
      // A timer may fire up to 1 ms early.
      const sinceMs = Math.min(dueMs, performance.now());
      const answer = await connection.ask(`${this.#head}${body.length}\r\n\r\n${body}`);
      this.#take(answer, expected, sinceMs, from);
    }
  }

  /** When to send the next request. Its latency counts from this time. */
  #dueMs(): number {
    const { intervalMs } = this.#job;
    return intervalMs === undefined ? performance.now() : this.#startMs + intervalMs * this.#sent++;
  }

  #take({ status, body }: Answer, expected: Request[1], sinceMs: number, from: number): void {
    const nowMs = performance.now();
    const isRight = expected.every((text) => body.includes(text));
    if (!isSuccess(this.#job.peer, status) || !isRight) {
      const reason = isSuccess(this.#job.peer, status) ? 'wrong answer' : String(status);
      this.#failures[reason] = (this.#failures[reason] ?? 0) + 1;
      return;
    }
    this.#lastRightMs = nowMs;
    this.#latenciesMs.push(nowMs - sinceMs);
    if (this.#job.source.kind === 'fresh') this.#sample(from, body);
  }

  /** Every answer of the job has the same chance to be in the sample (reservoir sampling). */
  #sample(from: number, body: string): void {
    const { source } = this.#job;
    const max = source.kind === 'fresh' && source.records > 1 ? MAX_LARGE_SAMPLES : MAX_SAMPLES;
    const { length } = this.#samples;
    const place = length < max ? length : Math.floor(Math.random() * this.#latenciesMs.length);
    if (place < max) this.#samples[place] = [from, body];
  }

  #result(durationS: number): JobResult {
    const sorted = this.#latenciesMs.sort((a, b) => a - b);
    return {
      count: sorted.length,
      p50Ms: quantile(sorted, 0.5),
      p99Ms: quantile(sorted, 0.99),
      failures: this.#failures,
      durationS,
      samples: this.#samples,
      next: this.#record,
    };
  }
}

const files = new Map<string, readonly Request[]>();

function prepared(file: string): () => Request {
  const requests = files.get(file) ?? (JSON.parse(readFileSync(file, 'latin1')) as Request[]);
  files.set(file, requests);
  return () => requests[Math.floor(Math.random() * requests.length)]!;
}

process.on('message', (job: Job) => {
  const reply = (message: Reply) => process.send!(message);
  new Run(job).run().then(
    (result) => reply({ result }),
    (error: Error) => reply({ error: error.message }),
  );
});
announce('');
