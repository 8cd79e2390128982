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
  readonly at_ms: number;
  /** What is spent or reserved: the time until the budget is full again. */
  readonly ahead_ms: number;
  /** Unknown tokens beyond the budget that known ones have earned. */
  readonly earned_ms: number;
  /** The time until as much as a whole budget can be earned again. */
  readonly earning_ms: number;
}

const FRESH: Budget = { at_ms: 0, ahead_ms: 0, earned_ms: 0, earning_ms: 0 };

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

  /** @param now_ms of a monotonic clock */
  settle({ name, rate, burst_s }: Bucket, count: number, outcome: Outcome, now_ms: number): Grant {
    const interval_ms = 1000 / rate;
    const whole_ms = Math.max(1000 * burst_s, interval_ms);
    const before = this.#budgets.get(name) ?? FRESH;
    const passed_ms = now_ms - before.at_ms;
    let ahead_ms = between(0, before.ahead_ms - passed_ms, 2 * whole_ms);
    let earning_ms = between(0, before.earning_ms - passed_ms, whole_ms);
    let earned_ms = passed_ms > MAX_IDLE_MS ? 0 : Math.min(before.earned_ms, whole_ms);

    const gain_ms = Math.min(
      (outcome.known * interval_ms) / KNOWN_FOR_ONE,
      whole_ms - earning_ms,
      whole_ms - earned_ms,
    );
    earned_ms += gain_ms;
    earning_ms += gain_ms;
    const trusted_ms = whole_ms / TRUSTED_PART - ROUNDING_MS;
    const is_trusted = earned_ms >= trusted_ms;
    const cost_ms = (is_trusted ? outcome.unknown : outcome.guessed) * interval_ms;
    ahead_ms = Math.max(0, ahead_ms - outcome.ended * interval_ms) + cost_ms;
    if (is_trusted) {
      const paid_ms = Math.max(0, Math.min(cost_ms, earned_ms, ahead_ms - whole_ms));
      earned_ms -= paid_ms;
      ahead_ms -= paid_ms;
    }
    ahead_ms = Math.min(ahead_ms, 2 * whole_ms);

    const spare_ms = earned_ms >= trusted_ms ? earned_ms : 0;
    const room_ms = whole_ms + spare_ms + ROUNDING_MS - ahead_ms;
    const room = Math.max(0, Math.floor(room_ms / interval_ms));
    const granted = Math.min(count, room);
    ahead_ms += granted * interval_ms;
    this.#budgets.set(name, { at_ms: now_ms, ahead_ms, earned_ms, earning_ms });
    const wait_ms = interval_ms + granted * interval_ms - room_ms;
    const retry_after_s = Math.max(0, Math.ceil(wait_ms / 1000));
    return { granted, left: room - granted, retry_after_s };
  }
}

function between(least: number, number: number, most: number): number {
  return Math.max(least, Math.min(number, most));
}

/** What one request can spend: one that asks for more must not shut its client out for hours. */
export function atMostWhole({ rate, burst_s }: Bucket, count: number): number {
  return Math.min(count, Math.max(1, Math.floor(rate * burst_s)));
}
