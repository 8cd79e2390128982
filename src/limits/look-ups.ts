import { CallerError } from '../errors.ts';
import {
  afterwards,
  type Bucket,
  type Buckets,
  type Grant,
  NO_OUTCOME,
  type Outcome,
} from './buckets.ts';

/** A request that gets no place within this time is answered with 503. */
const MAX_WAIT_MS = 1_000;

/** undefined: go on; otherwise whole seconds until the budget has a guess again. */
type RetryAfter = number | undefined;

/** A request that waits for a place. */
interface Waiter {
  readonly resolve: (retryAfterS: RetryAfter) => void;
  readonly timer: NodeJS.Timeout;
  hasGone: boolean;
}

/** The requests of one budget in this process. */
interface Gate {
  /** Requests that have reserved a place, or are about to. */
  underWay: number;
  waiting: Waiter[];
}

/**
 * Bounds the requests that look tokens up at the same time: never more than the budget could pay
 * for if each held a wrong guess. Further requests wait for a place. Most requests return their
 * place, so many parallel requests with known tokens are not refused.
 */
export class LookUps {
  readonly #buckets: Pick<Buckets, 'charge'>;
  readonly #gates = new Map<string, Gate>();
  /** Budgets that had nothing left when last asked: at most one for each client. */
  readonly #spent = new Set<string>();

  constructor(buckets: Pick<Buckets, 'charge'>) {
    this.#buckets = buckets;
  }

  /**
   * Whether the budget is spent, as far as this process knows. If another process has spent it,
   * `reserve` finds out.
   */
  isSpent(bucket: Bucket): RetryAfter | Promise<RetryAfter> {
    const { name } = bucket;
    // Requests in progress may return their places, so waiting is worthwhile.
    if (!this.#spent.has(name) || this.#gates.has(name)) return undefined;
    const looked = this.#buckets.charge(bucket, 0, NO_OUTCOME);
    return afterwards(looked, ({ left, retryAfterS }) => {
      if (left <= 0) return retryAfterS;
      this.#spent.delete(name);
      return undefined;
    });
  }

  /**
   * Reserves a place for a request, which must call `charge` afterwards.
   * @throws CallerError overloaded when the requests in progress take too long
   */
  reserve(bucket: Bucket): RetryAfter | Promise<RetryAfter> {
    const { name } = bucket;
    const gate: Gate = this.#gates.get(name) ?? { underWay: 0, waiting: [] };
    this.#gates.set(name, gate);
    if (gate.waiting.length > 0) return wait(gate);
    gate.underWay++;
    const reserved = this.#buckets.charge(bucket, 1, NO_OUTCOME);
    return afterwards(reserved, (grant) => this.#enter(name, gate, grant));
  }

  /** Returns the place of a request and counts its outcome. Resolves when later requests see it. */
  charge(bucket: Bucket, outcome: Outcome): Grant | Promise<Grant> {
    const gate = this.#gates.get(bucket.name)!;
    const waiters = gate.waiting.splice(0);
    const charged = this.#buckets.charge(bucket, waiters.length, outcome);
    return afterwards(charged, (grant) => {
      this.#leave(bucket, waiters, grant);
      return grant;
    });
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
    const admitted = waiters.splice(0, granted);
    gate.waiting.unshift(...waiters.filter((waiter) => !waiter.hasGone));
    gate.underWay += granted - 1;
    if (left <= 0) this.#spent.add(bucket.name);
    if (gate.underWay === 0) this.#end(bucket.name, gate, retryAfterS);
    for (const waiter of admitted) {
      if (waiter.hasGone) void this.charge(bucket, { ...NO_OUTCOME, ended: 1 });
      else release(waiter, undefined);
    }
  }

  /** No request is left that could return a place, so waiters are refused. */
  #end(name: string, { waiting }: Gate, retryAfterS: number): void {
    this.#gates.delete(name);
    for (const waiter of waiting) release(waiter, Math.max(1, retryAfterS));
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

function release({ resolve, timer }: Waiter, retryAfterS: RetryAfter): void {
  clearTimeout(timer);
  resolve(retryAfterS);
}
