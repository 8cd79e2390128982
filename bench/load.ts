import { type Counter, type Request, requests } from './bodies.ts';
import { announce } from './child.ts';
import { type Answer, Connection } from './connection.ts';
import { answerText, isSuccess, requestText } from './interfaces.ts';
import type { Job, JobResult, Latencies, Reply } from './job.ts';
import { quantile } from './numbers.ts';

/**
 * The load generator, a separate process that runs one job after another and checks every answer.
 * A request takes 8 us of CPU, the same as wrk with a script for distinct bodies (measured side by
 * side on the echo, at equal rates). The benchmark does not use wrk, which only counts statuses.
 */
const MAX_SAMPLES = 50;
const MAX_LARGE_SAMPLES = 1;
/** An answer that is still missing this long after the end of a job is a failure. */
const DRAIN_TIMEOUT_MS = 60_000;
const ANSWER_START = '{"data":';

/** Sends a request. Its latency counts from this time. */
type Send = (sinceMs: number) => void;

class Run {
  readonly #job: Job;
  readonly #next: () => Request;
  readonly #latenciesMs: Record<'right' | 'shed', number[]> = { right: [], shed: [] };
  readonly #samples: [string, string][] = [];
  readonly #failures: Record<string, number> = {};
  readonly #connections: Connection[] = [];
  readonly #counter: Counter;
  #inFlight = 0;
  #endMs = 0;
  #lastRightMs = 0;
  #settle: (error?: Error) => void = () => {};

  constructor(job: Job) {
    this.#job = job;
    this.#counter = { next: job.from };
    this.#next = requests(job.source, this.#counter);
  }

  async run(): Promise<JobResult> {
    const { durationMs, intervalMs } = this.#job;
    const startMs = performance.now();
    this.#endMs = startMs + durationMs;
    const finished = new Promise<void>((resolve, reject) => {
      this.#settle = (error) => (error === undefined ? resolve() : reject(error));
    });
    const tooLate = setTimeout(
      () => this.#settle(new Error(`no answer within ${DRAIN_TIMEOUT_MS} ms after the end`)),
      durationMs + DRAIN_TIMEOUT_MS,
    );
    if (intervalMs === undefined) this.#startClosed();
    else this.#startPaced(intervalMs);
    try {
      await finished;
    } finally {
      clearTimeout(tooLate);
      for (const connection of this.#connections) connection.close();
    }
    const lastMs =
      intervalMs === undefined ? this.#lastRightMs : Math.max(this.#lastRightMs, this.#endMs);
    return this.#result((lastMs - startMs) / 1_000);
  }

  #startClosed(): void {
    for (let i = 0; i < this.#job.connections; i++) {
      const send = this.#lane(() => {
        if (!this.#isOver()) send(performance.now());
      });
      if (!this.#isOver()) send(performance.now());
    }
  }

  #startPaced(intervalMs: number): void {
    const idle: Send[] = [];
    const waiting: number[] = [];
    for (let i = 0; i < this.#job.connections; i++) {
      const lane = this.#lane(() => {
        const dueMs = waiting.shift();
        if (dueMs === undefined) idle.push(lane);
        else lane(dueMs);
      });
      idle.push(lane);
    }
    let dueMs = performance.now();
    const timer = setInterval(() => {
      const nowMs = performance.now();
      if (nowMs >= this.#endMs) clearInterval(timer);
      for (; dueMs < Math.min(nowMs, this.#endMs); dueMs += intervalMs) {
        const lane = idle.pop();
        if (lane === undefined) waiting.push(dueMs);
        else lane(dueMs);
      }
      this.#finishIfDone();
    }, 1);
  }

  /** Opens a connection. */
  #lane(onAnswer: () => void): Send {
    const { hostname, port } = new URL(this.#job.url);
    let sinceMs = 0;
    let request: Request;
    const connection = new Connection(
      hostname,
      Number(port),
      (answer) => {
        this.#inFlight--;
        this.#take(request, answer, sinceMs);
        onAnswer();
        this.#finishIfDone();
      },
      (reason) => this.#settle(new Error(`lost a connection: ${reason}`)),
    );
    this.#connections.push(connection);
    return (fromMs) => {
      sinceMs = fromMs;
      request = this.#next();
      this.#inFlight++;
      connection.send(this.#text(request));
    };
  }

  #text({ sent }: Request): string {
    return requestText(this.#job, this.#job.operation, sent);
  }

  #finishIfDone(): void {
    if (this.#inFlight === 0 && this.#isOver()) this.#settle();
  }

  #isOver(): boolean {
    return performance.now() >= this.#endMs || this.#counter.next >= (this.#job.to ?? Infinity);
  }

  #take({ sent, expected }: Request, { status, body: answered }: Answer, sinceMs: number): void {
    const nowMs = performance.now();
    const { peer, operation } = this.#job;
    if (status === 503 && answered.includes('"overloaded"')) {
      this.#latenciesMs.shed.push(nowMs - sinceMs);
    } else if (!isSuccess(peer, status)) {
      this.#fail(String(status));
    } else {
      const body = answerText(this.#job, operation, sent, answered);
      if (!isExpected(body, expected)) {
        this.#fail('wrong answer');
        return;
      }
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
    const place =
      this.#samples.length < max
        ? this.#samples.length
        : Math.floor(Math.random() * this.#latenciesMs.right.length);
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
