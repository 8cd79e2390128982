import { Outbox } from '../threads/thread-messages.ts';
import type { Bucket, Grant, Outcome } from './bucket.ts';
import { MemoryRateLimiter } from './rate-limit.ts';
import type { SharedBuckets } from './shared-rate-limit.ts';

/** What requests ask of one bucket. */
export interface BucketsCall {
  readonly id: number;
  readonly bucket: Bucket;
  readonly count: number;
  /** Of a budget of guesses; undefined: of a bucket of requests. */
  readonly outcome?: Outcome;
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
    return calls.map(({ id, bucket, count, outcome }) => {
      const grant =
        outcome === undefined
          ? this.#limiter.take(bucket, count)
          : this.#limiter.settle(bucket, count, outcome);
      return { id, ...grant };
    });
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
  take(bucket: Bucket, count: number): Promise<Grant> {
    return this.#ask({ bucket, count });
  }

  settle(bucket: Bucket, count: number, outcome: Outcome): Promise<Grant> {
    return this.#ask({ bucket, count, outcome });
  }

  #ask(asked: Omit<BucketsCall, 'id'>): Promise<Grant> {
    return new Promise((resolve) => {
      const id = ++this.#last_id;
      this.#waiting.set(id, resolve);
      this.#outbox.put({ id, ...asked });
    });
  }

  put(answers: readonly BucketsAnswer[]): void {
    for (const { id, ...granted } of answers) {
      this.#waiting.get(id)!(granted);
      this.#waiting.delete(id);
    }
  }
}
