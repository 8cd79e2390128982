import { announce } from './child.ts';
import { type Answer, Connection, post } from './connection.ts';
import type { Job, JobResult, Reply } from './job.ts';
import { quantile } from './measure.ts';
import { peerBody, peerText } from './peers.ts';
import { type Counter, type Next, type Request, requests } from './requests.ts';

/**
 * The load generator, a separate process that runs one job after another and checks every answer.
 * A request takes 8 us of CPU, the same as wrk with a script for distinct bodies (measured side by
 * side on the echo, at equal rates). The benchmark does not use wrk, which only counts statuses.
 */
const MAX_SAMPLES = 50;
const MAX_LARGE_SAMPLES = 1;
/** An answer that is still missing this long after the end of a job is a failure. */
const DRAIN_TIMEOUT_MS = 60_000;
/** The pause of a patient job before a retry. */
const PATIENCE_PAUSE_MS = 200;
const ANSWER_START = '{"data":';

class Run {
  readonly #job: Job;
  readonly #next: Next;
  readonly #latenciesMs: number[] = [];
  readonly #besideLatenciesMs: number[] = [];
  readonly #samples: [string, string][] = [];
  readonly #failures: Record<string, number> = {};
  readonly #connections: Connection[] = [];
  readonly #counter: Counter;
  #right = 0;
  #repeated = 0;
  #inFlight = 0;
  #endMs = 0;
  #lastAnswerMs = 0;
  #settle: (error?: Error) => void = () => {};

  constructor(job: Job) {
    this.#job = job;
    this.#counter = { next: job.from };
    this.#next = requests(job.source, this.#counter);
  }

  async run(): Promise<JobResult> {
    const cpu = process.cpuUsage();
    const startMs = performance.now();
    this.#endMs = startMs + this.#job.duration_ms;
    const finished = new Promise<void>((resolve, reject) => {
      this.#settle = (error) => (error === undefined ? resolve() : reject(error));
    });
    const tooLate = setTimeout(
      () => this.#settle(new Error(`no answer within ${DRAIN_TIMEOUT_MS} ms after the end`)),
      this.#job.duration_ms + DRAIN_TIMEOUT_MS,
    );
    if (this.#job.intervalMs === undefined) this.#startClosed();
    else this.#startPaced(this.#job.intervalMs);
    if (this.#job.beside !== undefined) this.#startBeside(this.#job.beside);
    try {
      await finished;
    } finally {
      clearTimeout(tooLate);
      for (const connection of this.#connections) connection.close();
    }
    const { user, system } = process.cpuUsage(cpu);
    return this.#result((this.#lastAnswerMs - startMs) / 1_000, (user + system) / 1e6);
  }

  #startClosed(): void {
    for (let i = 0; i < this.#job.connections; i++) {
      const lane = this.#lane(this.#next, this.#latenciesMs, () => {
        if (!this.#isOver()) lane(performance.now());
      });
      if (!this.#isOver()) lane(performance.now());
    }
  }

  #startPaced(intervalMs: number): void {
    const idle: ((dueMs: number) => void)[] = [];
    const waiting: number[] = [];
    for (let i = 0; i < this.#job.connections; i++) {
      const lane = this.#lane(this.#next, this.#latenciesMs, () => {
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

  #startBeside(beside: NonNullable<Job['beside']>): void {
    const next = requests({ kind: 'fresh', records: beside.records }, this.#counter);
    const lane = this.#lane(next, this.#besideLatenciesMs, () => {
      setTimeout(() => {
        if (performance.now() < this.#endMs) lane(performance.now());
      }, beside.pauseMs);
    });
    lane(performance.now());
  }

  /** Opens a connection. Returns a function that sends a request; its latency counts from `sinceMs`. */
  #lane(next: Next, latenciesMs: number[], onAnswer: () => void): (sinceMs: number) => void {
    const { hostname, port } = new URL(this.#job.url);
    let sinceMs = 0;
    let request: Request;
    const connection = new Connection(
      hostname,
      Number(port),
      (answer) => {
        if (this.#job.isPatient && (answer.status === 500 || answer.status === 503)) {
          this.#repeated++;
          setTimeout(() => connection.send(this.#text(request)), PATIENCE_PAUSE_MS);
          return;
        }
        this.#lastAnswerMs = performance.now();
        latenciesMs.push(this.#lastAnswerMs - sinceMs);
        this.#inFlight--;
        this.#check(request, answer);
        onAnswer();
        this.#finishIfDone();
      },
      (reason) => this.#settle(new Error(`lost a connection: ${reason}`)),
    );
    this.#connections.push(connection);
    return (fromMs) => {
      sinceMs = fromMs;
      request = next();
      this.#inFlight++;
      connection.send(this.#text(request));
    };
  }

  #text({ sent }: Request): string {
    const { peer, operation, api_key: apiKey } = this.#job;
    if (peer !== undefined) return peerText(peer, operation, apiKey, sent);
    return post(`/api/v1/${operation}`, apiKey, sent);
  }

  #finishIfDone(): void {
    if (this.#inFlight === 0 && this.#isOver()) this.#settle();
  }

  #isOver(): boolean {
    return performance.now() >= this.#endMs || this.#counter.next >= (this.#job.to ?? Infinity);
  }

  #check({ sent, expected }: Request, { status, body: answered }: Answer): void {
    const { peer, operation } = this.#job;
    const body = peer === undefined ? answered : peerBody(peer, operation, answered);
    if (status !== 200) this.#fail(String(status));
    else if (!isExpected(body, expected)) this.#fail('wrong answer');
    else {
      this.#right++;
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
      this.#samples.length < max ? this.#samples.length : Math.floor(Math.random() * this.#right);
    if (place < max) this.#samples[place] = [sent, body];
  }

  #result(durationS: number, cpuS: number): JobResult {
    const sorted = this.#latenciesMs.sort((a, b) => a - b);
    return {
      right: this.#right,
      repeated: this.#repeated,
      failures: this.#failures,
      durationS,
      p50_ms: quantile(sorted, 0.5),
      p99_ms: quantile(sorted, 0.99),
      maxMs: quantile(sorted, 1),
      besideP50Ms: quantile(
        this.#besideLatenciesMs.sort((a, b) => a - b),
        0.5,
      ),
      cpuS,
      samples: this.#samples.map(([sent, body]) => [JSON.parse(sent), JSON.parse(body).data]),
      next: this.#counter.next,
    };
  }
}

function isExpected(body: string, expected: string | undefined): boolean {
  if (!body.startsWith(ANSWER_START)) return false;
  return expected === undefined || body.startsWith(expected, ANSWER_START.length);
}

process.on('message', (job: Job) => {
  const reply = (message: Reply) => process.send!(message);
  new Run(job).run().then(
    (result) => reply({ result }),
    (error: Error) => reply({ error: error.message }),
  );
});
announce('');
