import {
  type Bucket,
  type Grant,
  type Outcome,
  type RateLimiter,
  ROUNDING_MS,
  unlimited,
} from './bucket.ts';
import { MemoryBudgets } from './guess-budget.ts';

/**
 * Token buckets in the form of the generic cell rate algorithm (ITU-T I.371, annex A): one number
 * a bucket, the time at which it is full again. `rate-limiter-flexible` counts in fixed windows,
 * which lets twice the rate through at the edge of two.
 */
export class MemoryRateLimiter implements RateLimiter {
  readonly #fullAtMs = new Map<string, number>();
  readonly #budgets = new MemoryBudgets();
  readonly #nowMs: () => number;

  /** @param nowMs a monotonic clock: a step of the wall clock must lock nobody out */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** @param count several requests at once; 0 only looks */
  take({ name, rate, burstS }: Bucket, count = 1): Grant {
    if (rate === 0) return unlimited(count);
    const nowMs = this.#nowMs();
    const intervalMs = 1000 / rate;
    const wholeMs = Math.max(1000 * burstS, intervalMs);
    // Never further ahead than a whole bucket: the wait of a lower rate must not outlive it.
    const fullAtMs = Math.min(this.#fullAtMs.get(name) ?? 0, nowMs + wholeMs);
    const levelMs = Math.max(nowMs, fullAtMs);
    const room = Math.floor((wholeMs + ROUNDING_MS - (levelMs - nowMs)) / intervalMs);
    const granted = Math.min(count, room);
    const takenMs = levelMs + granted * intervalMs;
    // A full one is as good as one that was never asked for.
    if (takenMs > nowMs) this.#fullAtMs.set(name, takenMs);
    else this.#fullAtMs.delete(name);
    const waitMs = takenMs + intervalMs - nowMs - wholeMs - ROUNDING_MS;
    const retryAfterS = Math.max(0, Math.ceil(waitMs / 1000));
    return { granted, left: room - granted, retryAfterS };
  }

  settle(bucket: Bucket, count: number, outcome: Outcome): Grant {
    if (bucket.rate === 0) return unlimited(count);
    return this.#budgets.settle(bucket, count, outcome, this.#nowMs());
  }
}
