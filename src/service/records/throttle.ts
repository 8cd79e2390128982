import { setTimeout as sleep } from 'node:timers/promises';

/** Keeps long work down to a rate, so that requests beside it have their share. */
export class Throttle {
  readonly #rate: number | undefined;
  #freeAtMs = performance.now();

  /** @param rate items a second; undefined: no bound */
  constructor(rate: number | undefined) {
    this.#rate = rate;
  }

  /** Resolves when as many items as were let through before have had their time. */
  async pass(items: number, stop?: AbortSignal): Promise<void> {
    if (this.#rate === undefined) return;
    const nowMs = performance.now();
    const waitMs = this.#freeAtMs - nowMs;
    this.#freeAtMs = Math.max(this.#freeAtMs, nowMs) + (1000 * items) / this.#rate;
    if (waitMs > 0) await sleep(waitMs, undefined, { signal: stop }).catch(() => {});
  }
}
