import { type Answer, Connection } from './connection.ts';

const INTERVAL_MS = 5;
const END_TIMEOUT_MS = 10_000;
const REQUEST = 'GET /health/live HTTP/1.1\r\nHost: bench\r\n\r\n';

/**
 * Asks GET /health/live every so often on a connection of its own, from a process that does nothing else: how long
 * its answers take is how long the event loop is held up, as a caller finds it. What nodejs_eventloop_lag_max_seconds
 * tells of the process itself is no substitute: it includes the 10 ms between the looks of its timer.
 */
export class LivenessProbe {
  readonly #connection: Connection;
  readonly #timer: NodeJS.Timeout;
  /** When the requests that are not answered were due, the first of them is under way. */
  readonly #due_ms: number[] = [];
  #longest_ms = 0;
  #trouble: string | undefined;
  #onIdle: () => void = () => {};

  constructor(url: string) {
    const { hostname, port } = new URL(url);
    this.#connection = new Connection(
      hostname,
      Number(port),
      (answer) => this.#take(answer),
      (reason) => this.#fail(`lost the connection (${reason})`),
    );
    let due_ms = performance.now();
    this.#timer = setInterval(() => {
      // What this process itself is late by is not the service's.
      const now_ms = performance.now();
      if (now_ms < due_ms) return;
      due_ms = now_ms + INTERVAL_MS;
      this.#due_ms.push(now_ms);
      if (this.#due_ms.length === 1) this.#connection.send(REQUEST);
    }, 1);
  }

  /** @returns the longest time in ms; throws Error when an answer was wrong or is lost */
  async end(): Promise<number> {
    clearInterval(this.#timer);
    const too_late = setTimeout(
      () => this.#fail(`no answer within ${END_TIMEOUT_MS} ms`),
      END_TIMEOUT_MS,
    );
    if (this.#due_ms.length > 0 && this.#trouble === undefined) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    }
    clearTimeout(too_late);
    this.#connection.close();
    if (this.#trouble !== undefined) throw new Error(`GET /health/live: ${this.#trouble}`);
    return this.#longest_ms;
  }

  #take({ status }: Answer): void {
    this.#longest_ms = Math.max(this.#longest_ms, performance.now() - this.#due_ms.shift()!);
    if (status !== 200) this.#fail(`answered ${status}`);
    if (this.#due_ms.length > 0) this.#connection.send(REQUEST);
    else this.#onIdle();
  }

  #fail(trouble: string): void {
    this.#trouble ??= trouble;
    this.#onIdle();
  }
}
