import { setTimeout as sleep } from 'node:timers/promises';
import { type Counter, type Request, requests } from './bodies.ts';
import { announce } from './child.ts';
import { type Answer, Connection } from './connection.ts';
import { answerText, isSuccess, requestText } from './interfaces.ts';
import type { Job, JobResult, Latencies, Reply } from './job.ts';
import { quantile } from './numbers.ts';

/**
 * The load generator, a separate process that runs one job after another and checks every answer.
 * It takes about as much CPU as wrk with a script for distinct bodies. The benchmark does not use
 * wrk, which only counts statuses.
 */
const MAX_SAMPLES = 50;
const MAX_LARGE_SAMPLES = 1;
/** An answer that is still missing this long after the end of a job is a failure. */
const DRAIN_TIMEOUT_MS = 60_000;
const ANSWER_START = '{"data":';

class Run {
  readonly #job: Job;
  readonly #next: () => Request;
  readonly #latenciesMs: Record<'right' | 'shed', number[]> = { right: [], shed: [] };
  readonly #samples: [string, string][] = [];
  readonly #failures: Record<string, number> = {};
  readonly #counter: Counter;
  readonly #startMs = performance.now();
  readonly #endMs: number;
  #sent = 0;
  #lastRightMs = 0;

  constructor(job: Job) {
    this.#job = job;
    this.#endMs = this.#startMs + job.durationMs;
    this.#counter = { next: job.from };
    this.#next = requests(job.source, this.#counter);
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
      if (dueMs >= this.#endMs || this.#counter.next >= (this.#job.to ?? Infinity)) return;
      const earlyMs = dueMs - performance.now();
      if (earlyMs > 0) await sleep(earlyMs);
      const request = this.#next();
      const text = requestText(this.#job, this.#job.operation, request.sent);
      // A timer may fire up to 1 ms early.
      const sinceMs = Math.min(dueMs, performance.now());
      this.#take(request, await connection.ask(text), sinceMs);
    }
  }

  /** When to send the next request. Its latency counts from this time. */
  #dueMs(): number {
    const { intervalMs } = this.#job;
    return intervalMs === undefined ? performance.now() : this.#startMs + intervalMs * this.#sent++;
  }

  #take({ sent, expected }: Request, { status, body: answered }: Answer, sinceMs: number): void {
    const nowMs = performance.now();
    const { peer, operation } = this.#job;
    if (status === 503 && answered.includes('"overloaded"')) {
      this.#latenciesMs.shed.push(nowMs - sinceMs);
      return;
    }
    const body = isSuccess(peer, status) && answerText(this.#job, operation, sent, answered);
    if (body === false) this.#fail(String(status));
    else if (!isExpected(body, expected)) this.#fail('wrong answer');
    else {
      this.#lastRightMs = nowMs;
      this.#latenciesMs.right.push(nowMs - sinceMs);
      if (expected === undefined) this.#sample(sent, body);
    }
  }

  #fail(reason: string): void {
    this.#failures[reason] = (this.#failures[reason] ?? 0) + 1;
  }

  /** Every answer of the job has the same chance to be in the sample (reservoir sampling). */
  #sample(sent: string, body: string): void {
    const max = sent.startsWith('{"records"') ? MAX_LARGE_SAMPLES : MAX_SAMPLES;
    const { length } = this.#samples;
    const place =
      length < max ? length : Math.floor(Math.random() * this.#latenciesMs.right.length);
    if (place < max) this.#samples[place] = [sent, body];
  }

  #result(durationS: number): JobResult {
    return {
      right: latencies(this.#latenciesMs.right),
      shed: latencies(this.#latenciesMs.shed),
      failures: this.#failures,
      durationS,
      samples: this.#samples.map(([sent, body]) => [JSON.parse(sent), JSON.parse(body).data]),
      next: this.#counter.next,
    };
  }
}

function isExpected(body: string, expected: string | undefined): boolean {
  if (!body.startsWith(ANSWER_START)) return false;
  return expected === undefined || body.startsWith(expected, ANSWER_START.length);
}

function latencies(allMs: number[]): Latencies {
  const sorted = allMs.sort((a, b) => a - b);
  return {
    count: sorted.length,
    p50Ms: quantile(sorted, 0.5),
    p99Ms: quantile(sorted, 0.99),
    maxMs: quantile(sorted, 1),
  };
}

process.on('message', (job: Job) => {
  const reply = (message: Reply) => process.send!(message);
  new Run(job).run().then(
    (result) => reply({ result }),
    (error: Error) => reply({ error: error.message }),
  );
});
announce('');
