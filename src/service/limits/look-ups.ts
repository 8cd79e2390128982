import { CallerError } from '../../errors.ts';
import { type Bucket, type Grant, NO_OUTCOME, type Outcome, type RateLimiter } from './bucket.ts';

/** A request that gets no place in this time is answered 503. */
const MAX_WAIT_MS = 1_000;

/** undefined: go on; otherwise whole seconds after which there is one in the budget again. */
type RetryAfter = number | undefined;

/** A request that waits for a place. */
interface Waiter {
  readonly resolve: (retryAfterS: RetryAfter) => void;
  readonly timer: NodeJS.Timeout;
  hasGone: boolean;
}

/** The requests of one budget in this process. */
interface Gate {
  /** They have reserved, or are about to. */
  underWay: number;
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
    const judge = ({ left, retryAfterS }: Grant): RetryAfter => {
      if (left === 0) return retryAfterS;
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
    const gate: Gate = this.#gates.get(name) ?? { underWay: 0, waiting: [] };
    this.#gates.set(name, gate);
    if (gate.waiting.length > 0) return wait(gate);
    gate.underWay++;
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
    { granted, retryAfterS }: Grant,
  ): RetryAfter | Promise<RetryAfter> {
    if (granted === 1) return undefined;
    if (gate.underWay > 1) {
      gate.underWay--;
      return wait(gate);
    }
    this.#spent.add(name);
    this.#end(name, gate, retryAfterS);
    return retryAfterS;
  }

  #leave(bucket: Bucket, waiters: Waiter[], { granted, left, retryAfterS }: Grant): void {
    const gate = this.#gates.get(bucket.name)!;
    const letIn = waiters.splice(0, granted);
    gate.waiting.unshift(...waiters.filter((waiter) => !waiter.hasGone));
    gate.underWay += granted - 1;
    if (left === 0) this.#spent.add(bucket.name);
    if (gate.underWay === 0) this.#end(bucket.name, gate, retryAfterS);
    for (const waiter of letIn) {
      if (waiter.hasGone) void this.settle(bucket, { ...NO_OUTCOME, ended: 1 });
      else letGo(waiter, undefined);
    }
  }

  /** Nothing is under way that could give a place back. */
  #end(name: string, { waiting }: Gate, retryAfterS: number): void {
    this.#gates.delete(name);
    for (const waiter of waiting) letGo(waiter, Math.max(1, retryAfterS));
  }
}

function wait(gate: Gate): Promise<RetryAfter> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      waiter.hasGone = true;
      gate.waiting = gate.waiting.filter((one) => one !== waiter);
      reject(new CallerError('overloaded', '', 1));
    }, MAX_WAIT_MS);
    const waiter: Waiter = { resolve, timer, hasGone: false };
    gate.waiting.push(waiter);
  });
}

function letGo({ resolve, timer }: Waiter, retryAfterS: RetryAfter): void {
  clearTimeout(timer);
  resolve(retryAfterS);
}
