/** undefined: go on; otherwise whole seconds after which there is one in the bucket again. */
export type RetryAfter = number | undefined;

/** What a client may use up, and how fast it comes back. */
export interface Bucket {
  /** Of the client and of what is counted: no two have the same. */
  readonly name: string;
  /** So many come back a second; 0: no limit. */
  readonly rate: number;
  /** A full one holds what comes back in so many seconds, at least one. */
  readonly burst_s: number;
  /**
   * false: what is not there is refused. true: it was used before it could be counted, so it is
   * owed, up to a whole bucket, and nothing is there until that has come back.
   */
  readonly may_owe: boolean;
}

/** What a bucket gave. */
export interface Grant {
  /** How many go on: the first ones; all of a bucket that may owe. */
  readonly granted: number;
  /** Whole seconds after which one more would; 0: at once. */
  readonly retry_after_s: number;
}

/** Counts what clients use; in memory here, the same interface for limits shared by nodes. */
export interface RateLimiter {
  /** Takes one, of a bucket that refuses. */
  take(bucket: Bucket): RetryAfter | Promise<RetryAfter>;
  /**
   * Takes what was used, of a bucket that may owe, and tells whether there is one left.
   * @param count more than a whole bucket counts as one; 0 looks and takes nothing
   */
  spend(bucket: Bucket, count: number): RetryAfter | Promise<RetryAfter>;
}

/**
 * Sums of a rate like 3 a second must neither refuse the last request of a full bucket nor add a
 * second.
 */
const ROUNDING_MS = 1e-6;

/**
 * Token buckets in the form of the generic cell rate algorithm (ITU-T I.371, annex A): one number
 * a bucket, the time at which it is full again. `rate-limiter-flexible` counts in fixed windows,
 * which lets twice the rate through at the edge of two.
 */
export class MemoryRateLimiter implements RateLimiter {
  readonly #full_at_ms = new Map<string, number>();
  readonly #now_ms: () => number;

  /** @param now_ms a monotonic clock: a step of the wall clock must lock nobody out */
  constructor(now_ms: () => number = () => performance.now()) {
    this.#now_ms = now_ms;
  }

  take(bucket: Bucket): RetryAfter {
    if (bucket.rate === 0) return undefined;
    const { granted, retry_after_s } = this.ask(bucket, 1);
    return granted === 1 ? undefined : retry_after_s;
  }

  spend(bucket: Bucket, count: number): RetryAfter {
    if (bucket.rate === 0) return undefined;
    return this.ask(bucket, atMostWhole(bucket, count)).retry_after_s || undefined;
  }

  /** Takes several at once; 0 only looks. The rate is more than 0. */
  ask({ name, rate, burst_s, may_owe }: Bucket, count: number): Grant {
    const now_ms = this.#now_ms();
    const interval_ms = 1000 / rate;
    const whole_ms = Math.max(1000 * burst_s, interval_ms);
    const last_ms = now_ms + (may_owe ? 2 : 1) * whole_ms;
    // Never further ahead than that: the wait of a lower rate must not outlive it.
    const level_ms = Math.max(now_ms, Math.min(this.#full_at_ms.get(name) ?? 0, last_ms));
    const room = Math.floor((whole_ms + ROUNDING_MS - (level_ms - now_ms)) / interval_ms);
    const granted = may_owe ? count : Math.min(count, room);
    const taken_ms = level_ms + granted * interval_ms;
    const full_at_ms = may_owe ? Math.min(taken_ms, last_ms) : taken_ms;
    // A full one is as good as one that was never asked for.
    if (full_at_ms > now_ms) this.#full_at_ms.set(name, full_at_ms);
    else this.#full_at_ms.delete(name);
    const wait_ms = full_at_ms + interval_ms - now_ms - whole_ms - ROUNDING_MS;
    return { granted, retry_after_s: Math.max(0, Math.ceil(wait_ms / 1000)) };
  }
}

/** What one request can spend: one that asks for more must not shut its client out for hours. */
export function atMostWhole({ rate, burst_s }: Bucket, count: number): number {
  return Math.min(count, Math.max(1, Math.floor(rate * burst_s)));
}
