import { announce } from './child.ts';
import { type Answer, Connection, post } from './connection.ts';
import type { Job, JobResult, Reply } from './job.ts';
import { quantile } from './measure.ts';
import { peerBody, peerText } from './peers.ts';
import { type Counter, type Next, type Request, requests } from './requests.ts';

/**
 * The load generator: a process of its own, one job after the other. It checks every answer. Per request it takes
 * 8 us of CPU, as much as wrk with a script that makes distinct bodies (measured side by side on the echo, at equal
 * rates), so wrk, which can only count statuses, is not used.
 */
const MAX_SAMPLES = 50;
const MAX_LARGE_SAMPLES = 1;
/** Answers that are still out this long after the end of a job are a failure. */
const DRAIN_TIMEOUT_MS = 60_000;
/** A patient job waits so long before it sends a request again. */
const PATIENCE_PAUSE_MS = 200;
const ANSWER_START = '{"data":';

class Run {
  readonly #job: Job;
  readonly #next: Next;
  readonly #latencies_ms: number[] = [];
  readonly #beside_latencies_ms: number[] = [];
  readonly #samples: [string, string][] = [];
  readonly #failures: Record<string, number> = {};
  readonly #connections: Connection[] = [];
  readonly #counter: Counter;
  #right = 0;
  #repeated = 0;
  #in_flight = 0;
  #end_ms = 0;
  #last_answer_ms = 0;
  #settle: (error?: Error) => void = () => {};

  constructor(job: Job) {
    this.#job = job;
    this.#counter = { next: job.from };
    this.#next = requests(job.source, this.#counter);
  }

  async run(): Promise<JobResult> {
    const cpu = process.cpuUsage();
    const start_ms = performance.now();
    this.#end_ms = start_ms + this.#job.duration_ms;
    const finished = new Promise<void>((resolve, reject) => {
      this.#settle = (error) => (error === undefined ? resolve() : reject(error));
    });
    const too_late = setTimeout(
      () => this.#settle(new Error(`no answer within ${DRAIN_TIMEOUT_MS} ms after the end`)),
      this.#job.duration_ms + DRAIN_TIMEOUT_MS,
    );
    if (this.#job.interval_ms === undefined) this.#startClosed();
    else this.#startPaced(this.#job.interval_ms);
    if (this.#job.beside !== undefined) this.#startBeside(this.#job.beside);
    try {
      await finished;
    } finally {
      clearTimeout(too_late);
      for (const connection of this.#connections) connection.close();
    }
    const { user, system } = process.cpuUsage(cpu);
    return this.#result((this.#last_answer_ms - start_ms) / 1_000, (user + system) / 1e6);
  }

  #startClosed(): void {
    for (let i = 0; i < this.#job.connections; i++) {
      const lane = this.#lane(this.#next, this.#latencies_ms, () => {
        if (!this.#isOver()) lane(performance.now());
      });
      if (!this.#isOver()) lane(performance.now());
    }
  }

  #startPaced(interval_ms: number): void {
    const idle: ((due_ms: number) => void)[] = [];
    const waiting: number[] = [];
    for (let i = 0; i < this.#job.connections; i++) {
      const lane = this.#lane(this.#next, this.#latencies_ms, () => {
        const due_ms = waiting.shift();
        if (due_ms === undefined) idle.push(lane);
        else lane(due_ms);
      });
      idle.push(lane);
    }
    let due_ms = performance.now();
    const timer = setInterval(() => {
      const now_ms = performance.now();
      if (now_ms >= this.#end_ms) clearInterval(timer);
      for (; due_ms < Math.min(now_ms, this.#end_ms); due_ms += interval_ms) {
        const lane = idle.pop();
        if (lane === undefined) waiting.push(due_ms);
        else lane(due_ms);
      }
      this.#finishIfDone();
    }, 1);
  }

  #startBeside(beside: NonNullable<Job['beside']>): void {
    const next = requests({ kind: 'fresh', records: beside.records }, this.#counter);
    const lane = this.#lane(next, this.#beside_latencies_ms, () => {
      setTimeout(() => {
        if (performance.now() < this.#end_ms) lane(performance.now());
      }, beside.pause_ms);
    });
    lane(performance.now());
  }

  /** A connection: returns what sends its next request, whose latency counts from `since_ms`. */
  #lane(next: Next, latencies_ms: number[], onAnswer: () => void): (since_ms: number) => void {
    const { hostname, port } = new URL(this.#job.url);
    let since_ms = 0;
    let request: Request;
    const connection = new Connection(
      hostname,
      Number(port),
      (answer) => {
        if (this.#job.is_patient && (answer.status === 500 || answer.status === 503)) {
          this.#repeated++;
          setTimeout(() => connection.send(this.#text(request)), PATIENCE_PAUSE_MS);
          return;
        }
        this.#last_answer_ms = performance.now();
        latencies_ms.push(this.#last_answer_ms - since_ms);
        this.#in_flight--;
        this.#check(request, answer);
        onAnswer();
        this.#finishIfDone();
      },
      (reason) => this.#settle(new Error(`lost a connection: ${reason}`)),
    );
    this.#connections.push(connection);
    return (from_ms) => {
      since_ms = from_ms;
      request = next();
      this.#in_flight++;
      connection.send(this.#text(request));
    };
  }

  #text({ sent }: Request): string {
    const { peer, operation, api_key } = this.#job;
    if (peer !== undefined) return peerText(peer, operation, api_key, sent);
    return post(`/api/v1/${operation}`, api_key, sent);
  }

  #finishIfDone(): void {
    if (this.#in_flight === 0 && this.#isOver()) this.#settle();
  }

  #isOver(): boolean {
    return performance.now() >= this.#end_ms || this.#counter.next >= (this.#job.to ?? Infinity);
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

  /** Each answer of the job has the same chance to be in the sample. */
  #sample(sent: string, body: string): void {
    const max = sent.startsWith('{"records"') ? MAX_LARGE_SAMPLES : MAX_SAMPLES;
    const place =
      this.#samples.length < max ? this.#samples.length : Math.floor(Math.random() * this.#right);
    if (place < max) this.#samples[place] = [sent, body];
  }

  #result(duration_s: number, cpu_s: number): JobResult {
    const sorted = this.#latencies_ms.sort((a, b) => a - b);
    return {
      right: this.#right,
      repeated: this.#repeated,
      failures: this.#failures,
      duration_s,
      p50_ms: quantile(sorted, 0.5),
      p99_ms: quantile(sorted, 0.99),
      max_ms: quantile(sorted, 1),
      beside_p50_ms: quantile(
        this.#beside_latencies_ms.sort((a, b) => a - b),
        0.5,
      ),
      cpu_s,
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
