import { announce } from './child.ts';
import { type Answer, Connection, post } from './connection.ts';
import type { FloodJob, FloodReply, FloodResult, Latencies } from './flood-job.ts';
import { quantile } from './measure.ts';
import { requests } from './requests.ts';

/**
 * The generator of floods: an open loop, which sends requests at a rate whatever the answers do. Every request has a
 * time that it is due; its latency counts from there, so that what waits for a free connection waits in the figures.
 */
const DRAIN_TIMEOUT_MS = 20_000;
const SAMPLES = 50;

class Flood {
  readonly #job: FloodJob;
  readonly #idle: ((due_ms: number) => void)[] = [];
  readonly #waiting: number[] = [];
  readonly #connections: Connection[] = [];
  readonly #latencies_ms: Record<'ok' | 'shed', number[]> = { ok: [], shed: [] };
  readonly #failures: Record<string, number> = {};
  readonly #samples: [unknown, unknown][] = [];
  #offered = 0;
  #last_ok_ms = 0;
  #late_ms = 0;

  constructor(job: FloodJob) {
    this.#job = job;
  }

  async run(): Promise<FloodResult> {
    const { connections, duration_ms, rate } = this.#job;
    const counter = { next: this.#job.from };
    const next = requests(this.#job.source, counter);
    for (let i = 0; i < connections; i++) this.#idle.push(this.#lane(next));
    const start_ms = performance.now();
    const interval_ms = 1_000 / rate;
    await new Promise<void>((resolve) => {
      let due_ms = start_ms;
      const timer = setInterval(() => {
        const now_ms = Math.min(performance.now(), start_ms + duration_ms);
        this.#late_ms = Math.max(this.#late_ms, now_ms - due_ms);
        for (; due_ms < now_ms; due_ms += interval_ms) this.#send(due_ms);
        if (now_ms < start_ms + duration_ms) return;
        clearInterval(timer);
        resolve();
      }, 1);
    });
    const seconds = duration_ms / 1_000;
    const give_up_ms = performance.now() + DRAIN_TIMEOUT_MS;
    while (this.#idle.length < connections && performance.now() < give_up_ms)
      await new Promise((resolve) => setTimeout(resolve, 5));
    for (const connection of this.#connections) connection.close();
    const { ok, shed } = this.#latencies_ms;
    return {
      offered: this.#offered,
      failures: this.#failures,
      unanswered: connections - this.#idle.length,
      // Answers that come after the end are of the same flood.
      seconds: Math.max(seconds, (this.#last_ok_ms - start_ms) / 1_000),
      ok: latencies(ok),
      shed: latencies(shed),
      late_ms: this.#late_ms,
      samples: this.#samples,
      next: counter.next,
    };
  }

  #send(due_ms: number): void {
    this.#offered++;
    const lane = this.#idle.pop();
    if (lane === undefined) this.#waiting.push(due_ms);
    else lane(due_ms);
  }

  #lane(next: ReturnType<typeof requests>): (due_ms: number) => void {
    const { url, operation, api_key } = this.#job;
    const { hostname, port } = new URL(url);
    let due_ms = 0;
    let sent = '';
    let expected: string | undefined;
    const send = (from_ms: number) => {
      due_ms = from_ms;
      ({ sent, expected } = next());
      connection.send(post(`/api/v1/${operation}`, api_key, sent));
    };
    const connection = new Connection(
      hostname,
      Number(port),
      (answer) => {
        this.#take(answer, due_ms, sent, expected);
        const waiting_ms = this.#waiting.shift();
        if (waiting_ms === undefined) this.#idle.push(send);
        else send(waiting_ms);
      },
      (reason) => {
        this.#failures[reason] = (this.#failures[reason] ?? 0) + 1;
      },
    );
    this.#connections.push(connection);
    return send;
  }

  #take({ status, body }: Answer, due_ms: number, sent: string, expected?: string): void {
    const now_ms = performance.now();
    const is_right = status === 200 && body.startsWith(`{"data":${expected ?? ''}`);
    if (is_right) {
      this.#last_ok_ms = now_ms;
      this.#latencies_ms.ok.push(now_ms - due_ms);
      if (this.#samples.length < SAMPLES && expected === undefined)
        this.#samples.push([JSON.parse(sent), JSON.parse(body).data]);
    } else if (status === 503 && body.includes('"overloaded"')) {
      this.#latencies_ms.shed.push(now_ms - due_ms);
    } else {
      const reason = status === 200 ? 'wrong answer' : String(status);
      this.#failures[reason] = (this.#failures[reason] ?? 0) + 1;
    }
  }
}

function latencies(all_ms: number[]): Latencies {
  const sorted = all_ms.sort((a, b) => a - b);
  return {
    count: sorted.length,
    p50_ms: quantile(sorted, 0.5),
    p99_ms: quantile(sorted, 0.99),
    max_ms: quantile(sorted, 1),
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
