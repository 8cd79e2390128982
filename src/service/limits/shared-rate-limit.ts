import {
  type Bucket,
  type Grant,
  NO_OUTCOME,
  type Outcome,
  type RateLimiter,
  unlimited,
} from './bucket.ts';
import { MemoryRateLimiter } from './rate-limit.ts';

/** Buckets that several processes take from. */
export interface SharedBuckets {
  /**
   * Takes from a bucket for several requests.
   * @param bucket with a rate above 0
   * @param count 0 only checks whether the buckets answer
   */
  take(bucket: Bucket, count: number): Promise<Grant>;
  /** RateLimiter.settle, on the shared budget. */
  settle(bucket: Bucket, count: number, outcome: Outcome): Promise<Grant>;
}

/**
 * A call may take 100 ms, counted in ticks. When this process itself is held up, only one tick
 * passes, so an answer that already waits in the socket is still read.
 */
const PATIENCE_TICKS = 4;
const TICK_MS = 25;
const PROBE_INTERVAL_MS = 1_000;
/** Checks whether the buckets answer. No request takes from this bucket. */
export const PROBE: Bucket = { name: 'probe', rate: 1, burstS: 1 };

interface Question {
  readonly bucket: Bucket;
  readonly count: number;
  /** Set for a budget of guesses; undefined: a bucket of requests. */
  readonly outcome: Outcome | undefined;
}

const PROBING: Question = { bucket: PROBE, count: 0, outcome: undefined };

/** Requests that share one call to a bucket. */
interface Batch extends Question {
  bucket: Bucket;
  count: number;
  outcome: Outcome | undefined;
  /** Resolves to undefined when the buckets do not answer. */
  readonly grant: Promise<Grant | undefined>;
}

/**
 * Takes from shared buckets. Requests that arrive during a call to a bucket share the next call, so
 * a busy client costs one round trip at a time.
 * No request fails when the buckets fail or are slow: this process limits alone until they answer
 * again.
 */
export class SharedRateLimiter implements RateLimiter {
  readonly #backend: SharedBuckets;
  readonly #onShared: (isShared: boolean) => void;
  readonly #local = new MemoryRateLimiter();
  /** For each bucket, the batch that still accepts requests. */
  readonly #gathering = new Map<string, Batch>();
  /** For each bucket, the last batch that was started and not answered. */
  readonly #last = new Map<string, Batch>();
  readonly #prober: NodeJS.Timeout;
  /** undefined: not known yet, so the buckets are asked. */
  #isShared: boolean | undefined;
  /**
   * The question to repeat after a failure: shared buckets can answer for some names and not for
   * others.
   */
  #suspect: Question = PROBING;
  #isProbing = false;

  /** @param onShared called with the first state and with every change */
  constructor(backend: SharedBuckets, onShared: (isShared: boolean) => void) {
    this.#backend = backend;
    this.#onShared = onShared;
    this.#prober = setInterval(() => void this.#probe(), PROBE_INTERVAL_MS).unref();
    void this.#probe();
  }

  take(bucket: Bucket): Grant | Promise<Grant> {
    if (bucket.rate === 0) return unlimited(1);
    if (this.#isShared === false) return this.#local.take(bucket);
    return this.#share(bucket, 1, undefined, () => this.#local.take(bucket));
  }

  settle(bucket: Bucket, count: number, outcome: Outcome): Grant | Promise<Grant> {
    if (bucket.rate === 0) return unlimited(count);
    if (this.#isShared === false) return this.#local.settle(bucket, count, outcome);
    const alone = () => this.#local.settle(bucket, count, outcome);
    return this.#share(bucket, count, outcome, alone);
  }

  /** Ends the probes. After that, only requests change the state. */
  stop(): void {
    clearInterval(this.#prober);
  }

  /**
   * Joins a batch.
   * @param alone asks this process when the buckets do not answer
   */
  async #share(
    bucket: Bucket,
    count: number,
    outcome: Outcome | undefined,
    alone: () => Grant,
  ): Promise<Grant> {
    const batch = this.#gathering.get(bucket.name) ?? this.#begin(bucket);
    const place = batch.count;
    batch.bucket = bucket;
    batch.count += count;
    if (outcome !== undefined) batch.outcome = sum(batch.outcome, outcome);
    const grant = await batch.grant;
    if (grant === undefined) return alone();
    const { left, retryAfterS } = grant;
    return { granted: Math.max(0, Math.min(grant.granted - place, count)), left, retryAfterS };
  }

  #begin(bucket: Bucket): Batch {
    const { name } = bucket;
    // Wait for the end of this turn of the event loop, so that requests read in the same turn share
    // the call.
    const turn =
      this.#last.get(name)?.grant ?? new Promise<void>((resolve) => setImmediate(resolve));
    const grant = turn.then(() => this.#ask(name));
    const batch: Batch = { bucket, count: 0, outcome: undefined, grant };
    this.#gathering.set(name, batch);
    this.#last.set(name, batch);
    return batch;
  }

  async #ask(name: string): Promise<Grant | undefined> {
    const batch = this.#gathering.get(name)!;
    this.#gathering.delete(name);
    try {
      if (this.#isShared === false) return undefined;
      return await answerInTime(this.#question(batch));
    } catch {
      const { bucket, outcome } = batch;
      this.#suspect = { bucket, count: 0, outcome: outcome && NO_OUTCOME };
      this.#setShared(false);
      return undefined;
    } finally {
      if (this.#last.get(name) === batch) this.#last.delete(name);
    }
  }

  #question({ bucket, count, outcome }: Question): Promise<Grant> {
    return outcome === undefined
      ? this.#backend.take(bucket, count)
      : this.#backend.settle(bucket, count, outcome);
  }

  /** Runs while all is well, too, so that the state is known even without requests. */
  async #probe(): Promise<void> {
    if (this.#isProbing) return;
    this.#isProbing = true;
    try {
      await answerInTime(this.#question(this.#suspect));
      this.#suspect = PROBING;
      this.#setShared(true);
    } catch {
      this.#setShared(false);
    } finally {
      this.#isProbing = false;
    }
  }

  #setShared(isShared: boolean): void {
    if (this.#isShared === isShared) return;
    this.#isShared = isShared;
    this.#onShared(isShared);
  }
}

function answerInTime<T>(answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    let ticks = 0;
    const timer = setInterval(() => {
      if (++ticks < PATIENCE_TICKS) return;
      clearInterval(timer);
      reject(new Error('no answer in time'));
    }, TICK_MS);
    answer.then(resolve, reject).finally(() => clearInterval(timer));
  });
}

function sum(one: Outcome = NO_OUTCOME, other: Outcome): Outcome {
  return {
    ended: one.ended + other.ended,
    known: one.known + other.known,
    unknown: one.unknown + other.unknown,
    guessed: one.guessed + other.guessed,
  };
}
