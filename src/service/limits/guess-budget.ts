import { type Bucket, type Grant, type Outcome, ROUNDING_MS } from './bucket.ts';

/** So many known tokens earn one unknown token. */
export const KNOWN_FOR_ONE = 10;
/**
 * A client is trusted that has earned this part of a budget: with KNOWN_FOR_ONE, as many known
 * tokens as half a budget. Of guesses, so many would have to be right before the budget is spent.
 */
export const TRUSTED_PART = 20;
/** What was earned is forgotten when its client sends nothing for so long. */
export const MAX_IDLE_MS = 600_000;

/** All in milliseconds in which as much comes back, so that a changed rate is in force at once. */
interface Budget {
  readonly atMs: number;
  /** What is spent or reserved: the time until the budget is full again. */
  readonly aheadMs: number;
  /** Unknown tokens beyond the budget that known ones have earned. */
  readonly earnedMs: number;
  /** The time until as much as a whole budget can be earned again. */
  readonly earningMs: number;
}

const FRESH: Budget = { atMs: 0, aheadMs: 0, earnedMs: 0, earningMs: 0 };

/**
 * Budgets of guesses. A request reserves one before its tokens are looked up, and gives it back
 * afterwards. Its unknown tokens are spent as far as they are there; the rest is owed. Known tokens
 * earn as much again at most, no faster than a budget comes back. What a client has earned is spent
 * after its budget. A client that has earned too little to be trusted spends one for a request with
 * known tokens, too: they may be guesses that were right (docs/decisions/0018).
 *
 * redis-buckets.ts has the same arithmetic.
 */
export class MemoryBudgets {
  readonly #budgets = new Map<string, Budget>();

  /** @param nowMs of a monotonic clock */
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

/** What one request can spend: one that asks for more must not shut its client out for hours. */
export function atMostWhole({ rate, burstS }: Bucket, count: number): number {
  return Math.min(count, Math.max(1, Math.floor(rate * burstS)));
}
