import { setTimeout as sleep } from 'node:timers/promises';

/** Limits long work to a rate, so that requests keep their share of the database. */
export class Throttle {
  readonly #rate: number | undefined;
  #freeAtMs = performance.now();

  /** @param rate items a second; undefined: no limit */
  constructor(rate: number | undefined) {
    this.#rate = rate;
  }

  /** Resolves when the time of all earlier items has passed at this rate. */
  async pass(items: number, stop?: AbortSignal): Promise<void> {
    if (this.#rate === undefined) return;
    const nowMs = performance.now();
    const waitMs = this.#freeAtMs - nowMs;
    this.#freeAtMs = Math.max(this.#freeAtMs, nowMs) + (1000 * items) / this.#rate;
    if (waitMs > 0) await sleep(waitMs, undefined, { signal: stop }).catch(() => {});
  }
}
