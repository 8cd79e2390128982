import { type Answer, Connection } from './connection.ts';

const INTERVAL_MS = 5;
const END_TIMEOUT_MS = 10_000;
const REQUEST = 'GET /health/live HTTP/1.1\r\nHost: bench\r\n\r\n';

/**
 * Asks GET /health/live at intervals, from a separate process. The time of the answers shows how
 * long the event loop is blocked, from a caller's view. nodejsEventloopLagMaxSeconds is no
 * substitute, because it includes the 10 ms interval of its timer.
 */
export class LivenessProbe {
  readonly #connection: Connection;
  readonly #timer: NodeJS.Timeout;
  /** Due times of requests without an answer. The first of them is running. */
  readonly #dueMs: number[] = [];
  #longestMs = 0;
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
    let dueMs = performance.now();
    this.#timer = setInterval(() => {
      // A delay of this process itself does not count against the service.
      const nowMs = performance.now();
      if (nowMs < dueMs) return;
      dueMs = nowMs + INTERVAL_MS;
      this.#dueMs.push(nowMs);
      if (this.#dueMs.length === 1) this.#connection.send(REQUEST);
    }, 1);
  }

  /** @returns the longest time in ms @throws Error for a wrong or lost answer */
  async end(): Promise<number> {
    clearInterval(this.#timer);
    const tooLate = setTimeout(
      () => this.#fail(`no answer within ${END_TIMEOUT_MS} ms`),
      END_TIMEOUT_MS,
    );
    if (this.#dueMs.length > 0 && this.#trouble === undefined) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    }
    clearTimeout(tooLate);
    this.#connection.close();
    if (this.#trouble !== undefined) throw new Error(`GET /health/live: ${this.#trouble}`);
    return this.#longestMs;
  }

  #take({ status }: Answer): void {
    this.#longestMs = Math.max(this.#longestMs, performance.now() - this.#dueMs.shift()!);
    if (status !== 200) this.#fail(`answered ${status}`);
    if (this.#dueMs.length > 0) this.#connection.send(REQUEST);
    else this.#onIdle();
  }

  #fail(trouble: string): void {
    this.#trouble ??= trouble;
    this.#onIdle();
  }
}
