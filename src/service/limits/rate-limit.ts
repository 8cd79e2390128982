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
 * Token buckets as in the generic cell rate algorithm (ITU-T I.371, annex A). Each bucket is one
 * number: the time at which it is full again. `rate-limiter-flexible` was rejected: it counts in
 * fixed windows, so twice the rate passes where two windows meet.
 */
export class MemoryRateLimiter implements RateLimiter {
  readonly #fullAtMs = new Map<string, number>();
  readonly #budgets = new MemoryBudgets();
  readonly #nowMs: () => number;

  /** @param nowMs a monotonic clock, because a step of the wall clock must not lock anybody out */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** @param count requests to take; 0 only reads the bucket */
  take({ name, rate, burstS }: Bucket, count = 1): Grant {
    if (rate === 0) return unlimited(count);
    const nowMs = this.#nowMs();
    const intervalMs = 1000 / rate;
    const wholeMs = Math.max(1000 * burstS, intervalMs);
    // At most a whole bucket ahead: after the rate is raised, the longer wait of the lower rate
    // ends.
    const fullAtMs = Math.min(this.#fullAtMs.get(name) ?? 0, nowMs + wholeMs);
    const levelMs = Math.max(nowMs, fullAtMs);
    const room = Math.floor((wholeMs + ROUNDING_MS - (levelMs - nowMs)) / intervalMs);
    const granted = Math.min(count, room);
    const takenMs = levelMs + granted * intervalMs;
    // A full bucket needs no entry.
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
