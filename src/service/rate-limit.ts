/** undefined: go on; otherwise whole seconds after which one request is allowed. */
export type RetryAfter = number | undefined;

/**
 * Counts the requests of clients; in memory here, the same interface for limits shared by several
 * nodes.
 */
export interface RateLimiter {
  /** @param rate requests a second; 0: no limit */
  take(client_id: string, rate: number): RetryAfter | Promise<RetryAfter>;
}

/**
 * Sums of a rate like 3 a second must neither refuse the last request of a full bucket nor add a
 * second.
 */
const ROUNDING_MS = 1e-6;

/**
 * Token bucket a client, in the form of the generic cell rate algorithm (ITU-T I.371, annex A): one
 * number a client, the time at which its bucket is full again. A bucket holds one second of
 * requests, at least one. `rate-limiter-flexible` counts in fixed windows, which lets twice the
 * rate through at the edge of two.
 */
export class MemoryRateLimiter implements RateLimiter {
  readonly #full_at_ms = new Map<string, number>();
  readonly #now_ms: () => number;

  /** @param now_ms a monotonic clock: a step of the wall clock must lock nobody out */
  constructor(now_ms: () => number = () => performance.now()) {
    this.#now_ms = now_ms;
  }

  take(client_id: string, rate: number): RetryAfter {
    if (rate === 0) return undefined;
    const now_ms = this.#now_ms();
    const interval_ms = 1000 / rate;
    const bucket_ms = Math.max(1000, interval_ms);
    // Never more than a whole bucket ahead: the wait of a lower rate must not outlive it.
    const level_ms = Math.min(this.#full_at_ms.get(client_id) ?? 0, now_ms + bucket_ms);
    const full_at_ms = Math.max(now_ms, level_ms) + interval_ms;
    const wait_ms = full_at_ms - now_ms - bucket_ms - ROUNDING_MS;
    if (wait_ms > 0) {
      this.#full_at_ms.set(client_id, level_ms);
      return Math.ceil(wait_ms / 1000);
    }
    this.#full_at_ms.set(client_id, full_at_ms);
    return undefined;
  }
}
