import { setTimeout as sleep } from 'node:timers/promises';

/** Keeps long work down to a rate, so that requests beside it have their share. */
export class Throttle {
  readonly #rate: number | undefined;
  #free_at_ms = performance.now();

  /** @param rate items a second; undefined: no bound */
  constructor(rate: number | undefined) {
    this.#rate = rate;
  }

  /** Resolves when as many items as were let through before have had their time. */
  async pass(items: number, stop?: AbortSignal): Promise<void> {
    if (this.#rate === undefined) return;
    const now_ms = performance.now();
    const wait_ms = this.#free_at_ms - now_ms;
    this.#free_at_ms = Math.max(this.#free_at_ms, now_ms) + (1000 * items) / this.#rate;
    if (wait_ms > 0) await sleep(wait_ms, undefined, { signal: stop }).catch(() => {});
  }
}
