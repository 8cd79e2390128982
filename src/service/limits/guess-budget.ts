import { type Bucket, type Grant, type Outcome, ROUNDING_MS } from './bucket.ts';

/** This many known tokens earn one unknown token. */
export const KNOWN_FOR_ONE = 10;
/**
 * A client is trusted once it has earned 1/20 of its budget. With KNOWN_FOR_ONE, that takes known
 * tokens for half a budget. A guesser would need that many correct guesses before its budget is
 * spent.
 */
export const TRUSTED_PART = 20;
/** A client's earnings expire after this long without a request. */
export const MAX_IDLE_MS = 600_000;

/**
 * Amounts are stored as the time in which they come back, so that a changed rate applies at once.
 */
interface Budget {
  readonly atMs: number;
  /** What is spent or reserved: the time until the budget is full again. */
  readonly aheadMs: number;
  /** Unknown tokens beyond the budget that known ones have earned. */
  readonly earnedMs: number;
  /** The time until a whole budget can be earned again. */
  readonly earningMs: number;
}

const FRESH: Budget = { atMs: 0, aheadMs: 0, earnedMs: 0, earningMs: 0 };

/**
 * Budgets of guesses. A request reserves one guess before its tokens are looked up, and returns it
 * afterwards. Unknown tokens spend what the budget has; the rest becomes debt.
 * Known tokens earn at most one extra budget, no faster than the budget itself refills. Earnings
 * are spent after the budget.
 * A client without enough earnings is not trusted: each of its requests with known tokens costs
 * one, because those tokens may be correct guesses (docs/decisions/0018).
 * redis-buckets.ts does the same arithmetic.
 */
export class MemoryBudgets {
  readonly #budgets = new Map<string, Budget>();

  /** @param nowMs time of a monotonic clock */
  settle({ name, rate, burstS }: Bucket, count: number, outcome: Outcome, nowMs: number): Grant {
    const intervalMs = 1000 / rate;
    const wholeMs = Math.max(1000 * burstS, intervalMs);
    const before = this.#budgets.get(name) ?? FRESH;
    const passedMs = nowMs - before.atMs;
    let aheadMs = between(0, before.aheadMs - passedMs, 2 * wholeMs);
    let earningMs = between(0, before.earningMs - passedMs, wholeMs);
    let earnedMs = passedMs > MAX_IDLE_MS ? 0 : Math.min(before.earnedMs, wholeMs);

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
    const room = Math.max(0, Math.floor(roomMs / intervalMs));
    const granted = Math.min(count, room);
    aheadMs += granted * intervalMs;
    this.#budgets.set(name, { atMs: nowMs, aheadMs, earnedMs, earningMs });
    const waitMs = intervalMs + granted * intervalMs - roomMs;
    const retryAfterS = Math.max(0, Math.ceil(waitMs / 1000));
    return { granted, left: room - granted, retryAfterS };
  }
}

function between(least: number, number: number, most: number): number {
  return Math.max(least, Math.min(number, most));
}

/**
 * The most that one request can spend. Without it, one huge request would lock its client out for
 * hours.
 */
export function atMostWhole({ rate, burstS }: Bucket, count: number): number {
  return Math.min(count, Math.max(1, Math.floor(rate * burstS)));
}
