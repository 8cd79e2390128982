/** What a client may use up, and how fast it comes back. */
export interface Bucket {
  /** Of the client and of what is counted: no two have the same. */
  readonly name: string;
  /** So many come back a second; 0: no limit. */
  readonly rate: number;
  /** A full one holds what comes back in so many seconds, at least one. */
  readonly burstS: number;
}

/** What a bucket gave. */
export interface Grant {
  /** How many go on: the first ones. */
  readonly granted: number;
  /** How many more would go on now. */
  readonly left: number;
  /** Whole seconds after which one more would; 0: at once. */
  readonly retryAfterS: number;
}

/** What became of requests whose tokens were looked up, added up. */
export interface Outcome {
  /** Requests that are over. */
  readonly ended: number;
  /** Distinct tokens that were known. */
  readonly known: number;
  /** Distinct tokens that the vault has never given out. */
  readonly unknown: number;
  /** What the requests cost a client that is not trusted. */
  readonly guessed: number;
}

export const NO_OUTCOME: Outcome = { ended: 0, known: 0, unknown: 0, guessed: 0 };

/** Counts what clients use; in memory here, the same interface for limits shared by nodes. */
export interface RateLimiter {
  /** Takes one of a bucket of requests. */
  take(bucket: Bucket): Grant | Promise<Grant>;
  /**
   * Of a budget of guesses (guess-budget.ts): settles requests that are over, then reserves for
   * requests that are to begin. With neither it looks, and changes nothing.
   */
  settle(bucket: Bucket, count: number, outcome: Outcome): Grant | Promise<Grant>;
}

/** Of a bucket without limit. */
export function unlimited(count: number): Grant {
  return { granted: count, left: Infinity, retryAfterS: 0 };
}

/**
 * Sums of a rate like 3 a second must neither refuse the last request of a full bucket nor add a
 * second.
 */
export const ROUNDING_MS = 1e-6;
