/** What one client may use of one limit, and how fast it refills. */
export interface Bucket {
  /** Unique: it names the client and what the bucket counts. */
  readonly name: string;
  /** Units that come back each second; 0: no limit. */
  readonly rate: number;
  /** A full bucket holds what comes back in this many seconds, and at least one unit. */
  readonly burstS: number;
}

/** The answer of a bucket. */
export interface Grant {
  /** How many requests may go on, in their order. */
  readonly granted: number;
  /** How many more requests the bucket would grant now. */
  readonly left: number;
  /** Whole seconds until the bucket grants one more; 0: at once. */
  readonly retryAfterS: number;
}

/** The result of token look-ups, summed over requests. */
export interface Outcome {
  /** Finished requests. */
  readonly ended: number;
  /** Distinct known tokens. */
  readonly known: number;
  /** Distinct tokens that the vault has never issued. */
  readonly unknown: number;
  /** The cost of the requests to a client that is not trusted. */
  readonly guessed: number;
}

export const NO_OUTCOME: Outcome = { ended: 0, known: 0, unknown: 0, guessed: 0 };

/** Counts what clients use: in memory, or in Redis when nodes share limits. */
export interface RateLimiter {
  /** Takes one request from its bucket. */
  take(bucket: Bucket): Grant | Promise<Grant>;
  /**
   * Works on a budget of guesses (guess-budget.ts): settles finished requests, then reserves for
   * new ones. With `count` 0 and NO_OUTCOME it changes nothing.
   */
  settle(bucket: Bucket, count: number, outcome: Outcome): Grant | Promise<Grant>;
}

/** The grant of a bucket without a limit. */
export function unlimited(count: number): Grant {
  return { granted: count, left: Infinity, retryAfterS: 0 };
}

/**
 * Tolerance for rounding. Without it, a rate like 3 a second would refuse the last request of a
 * full bucket, or report a second too many.
 */
export const ROUNDING_MS = 1e-6;
