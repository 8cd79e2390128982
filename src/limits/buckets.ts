/** The size of one limit of one client, and how fast it refills. */
export interface Bucket {
  /** Unique: it names the client and what the bucket counts. */
  readonly name: string;
  /** Units that come back each second, above 0. */
  readonly rate: number;
  /** A full bucket holds what comes back in this many seconds, and at least one unit. */
  readonly burstS: number;
  /** Whether it is a budget of guesses; if not, it is a bucket of requests. */
  readonly isBudget: boolean;
}

/** The answer of a bucket. */
export interface Grant {
  /** How many requests may go on, in their order. */
  readonly granted: number;
  /** How many more requests the bucket would grant now; below 0: so many are owed. */
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
export interface Buckets {
  /**
   * Takes requests from their bucket, or reserves guesses of a budget, after it charged finished
   * requests. With `count` 0 and NO_OUTCOME it changes nothing.
   */
  charge(bucket: Bucket, count: number, outcome: Outcome): Grant | Promise<Grant>;
  /** Whether nodes share the buckets now; undefined: they never do. */
  readonly isShared: boolean | undefined;
  close(): void;
}

/** Continues in the same turn when the answer is there already, as it is from memory. */
export function afterwards<T, R>(
  answer: T | Promise<T>,
  next: (answer: T) => R,
): R | Promise<Awaited<R>> {
  return answer instanceof Promise ? (answer.then(next) as Promise<Awaited<R>>) : next(answer);
}

/**
 * Tolerance for rounding. Without it, a rate like 3 a second would refuse the last request of a
 * full bucket, or report a second too many.
 */
const ROUNDING_MS = 1e-6;

/** This many known tokens earn one unknown token. */
export const KNOWN_FOR_ONE = 10;
/**
 * A client is trusted once it has earned 1/20 of its budget. With KNOWN_FOR_ONE, that takes known
 * tokens for half a budget. A guesser would need that many correct guesses before its budget is
 * spent.
 */
export const TRUSTED_PART = 20;
/** So many known tokens make a client trusted, in parts of a whole budget. */
const KNOWN_FOR_TRUST = KNOWN_FOR_ONE / TRUSTED_PART;
/** A client's earnings expire after this long without a request. */
export const MAX_IDLE_MS = 600_000;

/**
 * Amounts are stored as the time in which they come back, so that a changed rate applies at once.
 */
interface Level {
  atMs: number;
  /** The time until the bucket is full again: all that is spent or reserved. */
  aheadMs: number;
  /** Unknown tokens beyond the budget that known ones have earned. */
  earnedMs: number;
  /** The time until a whole budget can be earned again. */
  earningMs: number;
}

const FRESH: Readonly<Level> = { atMs: 0, aheadMs: 0, earnedMs: 0, earningMs: 0 };

/** The buckets of this process. redis-buckets.ts does the same arithmetic. */
export class MemoryBuckets implements Buckets {
  readonly isShared = undefined;
  readonly #levels = new Map<string, Level>();
  readonly #nowMs: () => number;

  /** @param nowMs a monotonic clock, because a step of the wall clock must not lock anybody out */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /**
   * A token bucket as in the generic cell rate algorithm (ITU-T I.371, annex A).
   * `rate-limiter-flexible` was rejected: it counts in fixed windows, so twice the rate passes
   * where two windows meet.
   * In a budget of guesses, a request reserves one guess before its tokens are looked up, and
   * returns it afterwards. Unknown tokens spend what the budget has; the rest becomes debt.
   * Known tokens earn at most one extra budget, no faster than the budget itself refills. Earnings
   * are spent after the budget.
   * A client without enough earnings is not trusted: each of its requests with known tokens costs
   * one, because those tokens may be correct guesses (docs/decisions/0018).
   */
  charge({ name, rate, burstS, isBudget }: Bucket, count: number, outcome = NO_OUTCOME): Grant {
    const nowMs = this.#nowMs();
    const intervalMs = 1000 / rate;
    const wholeMs = Math.max(1000 * burstS, intervalMs);
    const level = this.#levels.get(name) ?? { ...FRESH };
    const passedMs = nowMs - level.atMs;
    // A whole bucket ahead at most, unless there is debt: after the rate is raised, the longer wait
    // of the lower rate ends.
    let aheadMs = between(0, level.aheadMs - passedMs, isBudget ? 2 * wholeMs : wholeMs);
    let earningMs = between(0, level.earningMs - passedMs, wholeMs);
    let earnedMs = passedMs > MAX_IDLE_MS ? 0 : Math.min(level.earnedMs, wholeMs);

    const gainMs = Math.min(
      (outcome.known * intervalMs) / KNOWN_FOR_ONE,
      wholeMs - earningMs,
      wholeMs - earnedMs,
    );
    earnedMs += gainMs;
    earningMs += gainMs;
    const trustedMs = wholeMs / TRUSTED_PART - ROUNDING_MS;
    const isTrusted = earnedMs >= trustedMs;
    const costMs = (isTrusted ? outcome.unknown : outcome.guessed) * intervalMs;
    aheadMs = Math.max(0, aheadMs - outcome.ended * intervalMs) + costMs;
    if (isTrusted) {
      const paidMs = Math.max(0, Math.min(costMs, earnedMs, aheadMs - wholeMs));
      earnedMs -= paidMs;
      aheadMs -= paidMs;
    }
    aheadMs = Math.min(aheadMs, 2 * wholeMs);

    const spareMs = earnedMs >= trustedMs ? earnedMs : 0;
    const roomMs = wholeMs + spareMs + ROUNDING_MS - aheadMs;
    const room = Math.floor(roomMs / intervalMs);
    const granted = between(0, count, Math.max(0, room));
    aheadMs += granted * intervalMs;
    this.#levels.set(name, level);
    // In place: a new object for each request would be garbage.
    level.atMs = nowMs;
    level.aheadMs = aheadMs;
    level.earnedMs = earnedMs;
    level.earningMs = earningMs;
    const waitMs = intervalMs + granted * intervalMs - roomMs;
    return { granted, left: room - granted, retryAfterS: Math.max(0, Math.ceil(waitMs / 1000)) };
  }

  close(): void {}
}

function between(least: number, number: number, most: number): number {
  return Math.max(least, Math.min(number, most));
}

/**
 * The most that one request can spend. Without it, one huge request would lock its client out for
 * hours.
 */
export function atMostWhole(bucket: Bucket, count: number): number {
  return Math.min(count, wholeOf(bucket));
}

/** The cost of known tokens beside unknown ones: each is a guess until the client is trusted. */
export function costOfKnown(bucket: Bucket, known: number): number {
  return Math.min(known, Math.ceil(wholeOf(bucket) * KNOWN_FOR_TRUST));
}

function wholeOf({ rate, burstS }: Bucket): number {
  return Math.max(1, Math.floor(rate * burstS));
}
