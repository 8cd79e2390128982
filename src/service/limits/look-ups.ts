import { CallerError } from '../../errors.ts';
import { type Bucket, type Grant, NO_OUTCOME, type Outcome, type RateLimiter } from './bucket.ts';

/** A request that gets no place in this time is answered 503. */
const MAX_WAIT_MS = 1_000;

/** undefined: go on; otherwise whole seconds after which there is one in the budget again. */
type RetryAfter = number | undefined;

/** A request that waits for a place. */
interface Waiter {
  readonly resolve: (retry_after_s: RetryAfter) => void;
  readonly timer: NodeJS.Timeout;
  has_gone: boolean;
}

/** The requests of one budget in this process. */
interface Gate {
  /** They have reserved, or are about to. */
  under_way: number;
  waiting: Waiter[];
}

/**
 * Requests that look tokens up: of one budget never more at the same time than the budget could pay
 * for, were each of them a wrong guess. Further requests wait until requests under way are over,
 * which mostly gives their places back: so many requests with known tokens at once are not refused.
 */
export class LookUps {
  readonly #limiter: RateLimiter;
  readonly #gates = new Map<string, Gate>();
  /** The budgets in which nothing was left when they were last asked: at most one a client. */
  readonly #spent = new Set<string>();

  constructor(limiter: RateLimiter) {
    this.#limiter = limiter;
  }

  /**
   * Whether the budget is spent, as far as this process knows. Another process may have spent it:
   * `reserve` finds out.
   */
  isSpent(bucket: Bucket): RetryAfter | Promise<RetryAfter> {
    const { name } = bucket;
    // Places that requests under way may give back are worth waiting for.
    if (!this.#spent.has(name) || this.#gates.has(name)) return undefined;
    const judge = ({ left, retry_after_s }: Grant): RetryAfter => {
      if (left === 0) return retry_after_s;
      this.#spent.delete(name);
      return undefined;
    };
    const looked = this.#limiter.settle(bucket, 0, NO_OUTCOME);
    return looked instanceof Promise ? looked.then(judge) : judge(looked);
  }

  /**
   * Reserves a place for a request. Who gets one has to `settle` it.
   * @throws CallerError overloaded when the requests under way take too long
   */
  reserve(bucket: Bucket): RetryAfter | Promise<RetryAfter> {
    const { name } = bucket;
    const gate: Gate = this.#gates.get(name) ?? { under_way: 0, waiting: [] };
    this.#gates.set(name, gate);
    if (gate.waiting.length > 0) return wait(gate);
    gate.under_way++;
    const grant = this.#limiter.settle(bucket, 1, NO_OUTCOME);
    if (grant instanceof Promise) return grant.then((late) => this.#enter(name, gate, late));
    return this.#enter(name, gate, grant);
  }

  /** What became of a request that had a place. Resolves when later requests see it. */
  settle(bucket: Bucket, outcome: Outcome): void | Promise<void> {
    const gate = this.#gates.get(bucket.name)!;
    const waiters = gate.waiting.splice(0);
    const grant = this.#limiter.settle(bucket, waiters.length, outcome);
    if (grant instanceof Promise) return grant.then((late) => this.#leave(bucket, waiters, late));
    this.#leave(bucket, waiters, grant);
  }

  #enter(
    name: string,
    gate: Gate,
    { granted, retry_after_s }: Grant,
  ): RetryAfter | Promise<RetryAfter> {
    if (granted === 1) return undefined;
    if (gate.under_way > 1) {
      gate.under_way--;
      return wait(gate);
    }
    this.#spent.add(name);
    this.#end(name, gate, retry_after_s);
    return retry_after_s;
  }

  #leave(bucket: Bucket, waiters: Waiter[], { granted, left, retry_after_s }: Grant): void {
    const gate = this.#gates.get(bucket.name)!;
    const let_in = waiters.splice(0, granted);
    gate.waiting.unshift(...waiters.filter((waiter) => !waiter.has_gone));
    gate.under_way += granted - 1;
    if (left === 0) this.#spent.add(bucket.name);
    if (gate.under_way === 0) this.#end(bucket.name, gate, retry_after_s);
    for (const waiter of let_in) {
      if (waiter.has_gone) void this.settle(bucket, { ...NO_OUTCOME, ended: 1 });
      else letGo(waiter, undefined);
    }
  }

  /** Nothing is under way that could give a place back. */
  #end(name: string, { waiting }: Gate, retry_after_s: number): void {
    this.#gates.delete(name);
    for (const waiter of waiting) letGo(waiter, Math.max(1, retry_after_s));
  }
}

function wait(gate: Gate): Promise<RetryAfter> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      waiter.has_gone = true;
      gate.waiting = gate.waiting.filter((one) => one !== waiter);
      reject(new CallerError('overloaded', '', 1));
    }, MAX_WAIT_MS);
    const waiter: Waiter = { resolve, timer, has_gone: false };
    gate.waiting.push(waiter);
  });
}

function letGo({ resolve, timer }: Waiter, retry_after_s: RetryAfter): void {
  clearTimeout(timer);
  resolve(retry_after_s);
}
