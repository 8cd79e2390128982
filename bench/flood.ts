import { announce } from './child.ts';
import { type Answer, Connection, post } from './connection.ts';
import type { FloodJob, FloodReply, FloodResult, Latencies } from './flood-job.ts';
import { quantile } from './measure.ts';
import { requests } from './requests.ts';

/**
 * The generator of floods: an open loop, which sends requests at a fixed rate, regardless of the
 * answers. The latency of a request counts from its due time, so it includes the wait for a free
 * connection.
 */
const DRAIN_TIMEOUT_MS = 20_000;
const SAMPLES = 50;

class Flood {
  readonly #job: FloodJob;
  readonly #idle: ((dueMs: number) => void)[] = [];
  readonly #waiting: number[] = [];
  readonly #connections: Connection[] = [];
  readonly #latenciesMs: Record<'ok' | 'shed', number[]> = { ok: [], shed: [] };
  readonly #failures: Record<string, number> = {};
  readonly #samples: [unknown, unknown][] = [];
  #offered = 0;
  #lastOkMs = 0;
  #lateMs = 0;

  constructor(job: FloodJob) {
    this.#job = job;
  }

  async run(): Promise<FloodResult> {
    const { connections, duration_ms: durationMs, rate } = this.#job;
    const counter = { next: this.#job.from };
    const next = requests(this.#job.source, counter);
    for (let i = 0; i < connections; i++) this.#idle.push(this.#lane(next));
    const startMs = performance.now();
    const intervalMs = 1_000 / rate;
    await new Promise<void>((resolve) => {
      let dueMs = startMs;
      const timer = setInterval(() => {
        const nowMs = Math.min(performance.now(), startMs + durationMs);
        this.#lateMs = Math.max(this.#lateMs, nowMs - dueMs);
        for (; dueMs < nowMs; dueMs += intervalMs) this.#send(dueMs);
        if (nowMs < startMs + durationMs) return;
        clearInterval(timer);
        resolve();
      }, 1);
    });
    const seconds = durationMs / 1_000;
    const giveUpMs = performance.now() + DRAIN_TIMEOUT_MS;
    while (this.#idle.length < connections && performance.now() < giveUpMs)
      await new Promise((resolve) => setTimeout(resolve, 5));
    for (const connection of this.#connections) connection.close();
    const { ok, shed } = this.#latenciesMs;
    return {
      offered: this.#offered,
      failures: this.#failures,
      unanswered: connections - this.#idle.length,
      // Later answers still belong to this flood.
      seconds: Math.max(seconds, (this.#lastOkMs - startMs) / 1_000),
      ok: latencies(ok),
      shed: latencies(shed),
      lateMs: this.#lateMs,
      samples: this.#samples,
      next: counter.next,
    };
  }

  #send(dueMs: number): void {
    this.#offered++;
    const lane = this.#idle.pop();
    if (lane === undefined) this.#waiting.push(dueMs);
    else lane(dueMs);
  }

  #lane(next: ReturnType<typeof requests>): (dueMs: number) => void {
    const { url, operation, api_key: apiKey } = this.#job;
    const { hostname, port } = new URL(url);
    let dueMs = 0;
    let sent = '';
    let expected: string | undefined;
    const send = (fromMs: number) => {
      dueMs = fromMs;
      ({ sent, expected } = next());
      connection.send(post(`/api/v1/${operation}`, apiKey, sent));
    };
    const connection = new Connection(
      hostname,
      Number(port),
      (answer) => {
        this.#take(answer, dueMs, sent, expected);
        const waitingMs = this.#waiting.shift();
        if (waitingMs === undefined) this.#idle.push(send);
        else send(waitingMs);
      },
      (reason) => {
        this.#failures[reason] = (this.#failures[reason] ?? 0) + 1;
      },
    );
    this.#connections.push(connection);
    return send;
  }

  #take({ status, body }: Answer, dueMs: number, sent: string, expected?: string): void {
    const nowMs = performance.now();
    const isRight = status === 200 && body.startsWith(`{"data":${expected ?? ''}`);
    if (isRight) {
      this.#lastOkMs = nowMs;
      this.#latenciesMs.ok.push(nowMs - dueMs);
      if (this.#samples.length < SAMPLES && expected === undefined)
        this.#samples.push([JSON.parse(sent), JSON.parse(body).data]);
    } else if (status === 503 && body.includes('"overloaded"')) {
      this.#latenciesMs.shed.push(nowMs - dueMs);
    } else {
      const reason = status === 200 ? 'wrong answer' : String(status);
      this.#failures[reason] = (this.#failures[reason] ?? 0) + 1;
    }
  }
}

function latencies(allMs: number[]): Latencies {
  const sorted = allMs.sort((a, b) => a - b);
  return {
    count: sorted.length,
    p50_ms: quantile(sorted, 0.5),
    p99_ms: quantile(sorted, 0.99),
    maxMs: quantile(sorted, 1),
  };
}

process.on('message', (job: FloodJob) => {
  const reply = (message: FloodReply) => process.send!(message);
  new Flood(job).run().then(
    (result) => reply({ result }),
    (error: Error) => reply({ error: error.message }),
  );
});
announce('');
