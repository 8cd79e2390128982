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
  readonly #full_at_ms = new Map<string, number>();
  readonly #budgets = new MemoryBudgets();
  readonly #now_ms: () => number;

  /** @param now_ms a monotonic clock: a step of the wall clock must lock nobody out */
  constructor(now_ms: () => number = () => performance.now()) {
    this.#now_ms = now_ms;
  }

  /** @param count several requests at once; 0 only looks */
  take({ name, rate, burst_s }: Bucket, count = 1): Grant {
    if (rate === 0) return unlimited(count);
    const now_ms = this.#now_ms();
    const interval_ms = 1000 / rate;
    const whole_ms = Math.max(1000 * burst_s, interval_ms);
    // Never further ahead than a whole bucket: the wait of a lower rate must not outlive it.
    const full_at_ms = Math.min(this.#full_at_ms.get(name) ?? 0, now_ms + whole_ms);
    const level_ms = Math.max(now_ms, full_at_ms);
    const room = Math.floor((whole_ms + ROUNDING_MS - (level_ms - now_ms)) / interval_ms);
    const granted = Math.min(count, room);
    const taken_ms = level_ms + granted * interval_ms;
    // A full one is as good as one that was never asked for.
    if (taken_ms > now_ms) this.#full_at_ms.set(name, taken_ms);
    else this.#full_at_ms.delete(name);
    const wait_ms = taken_ms + interval_ms - now_ms - whole_ms - ROUNDING_MS;
    const retry_after_s = Math.max(0, Math.ceil(wait_ms / 1000));
    return { granted, left: room - granted, retry_after_s };
  }

  settle(bucket: Bucket, count: number, outcome: Outcome): Grant {
    if (bucket.rate === 0) return unlimited(count);
    return this.#budgets.settle(bucket, count, outcome, this.#now_ms());
  }
}
