import { MemoryRateLimiter } from './rate-limit.ts';
import type { Grant, SharedBuckets } from './shared-rate-limit.ts';
import { Outbox } from './thread-messages.ts';

/** Requests of one client that ask to be let through. */
export interface BucketsCall {
  readonly id: number;
  readonly client_id: string;
  readonly rate: number;
  readonly requests: number;
}

export interface BucketsAnswer extends Grant {
  readonly id: number;
}

/** The buckets of all workers, in the primary: what one takes the others have not. */
export class PrimaryBuckets {
  readonly #limiter: MemoryRateLimiter;

  constructor(limiter = new MemoryRateLimiter()) {
    this.#limiter = limiter;
  }

  answer(calls: readonly BucketsCall[]): BucketsAnswer[] {
    return calls.map((call) => ({ id: call.id, ...this.#take(call) }));
  }

  #take({ client_id, rate, requests }: BucketsCall): Grant {
    for (let granted = 0; granted < requests; granted++) {
      const retry_after_s = this.#limiter.take(client_id, rate);
      if (retry_after_s !== undefined) return { granted, retry_after_s };
    }
    return { granted: requests, retry_after_s: 0 };
  }
}

/** A worker's way to the buckets of the primary: one message a turn of the event loop. */
export class RemoteBuckets implements SharedBuckets {
  readonly #waiting = new Map<number, (granted: Grant) => void>();
  readonly #outbox: Outbox<BucketsCall>;
  #last_id = 0;

  constructor(send: (calls: BucketsCall[]) => void) {
    this.#outbox = new Outbox(send);
  }

  /** Without a bound in time: who waits has one. */
  take(client_id: string, rate: number, requests: number): Promise<Grant> {
    return new Promise((resolve) => {
      const id = ++this.#last_id;
      this.#waiting.set(id, resolve);
      this.#outbox.put({ id, client_id, rate, requests });
    });
  }

  put(answers: readonly BucketsAnswer[]): void {
    for (const { id, ...granted } of answers) {
      this.#waiting.get(id)!(granted);
      this.#waiting.delete(id);
    }
  }
}
