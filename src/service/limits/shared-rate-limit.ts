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
   * Takes for several requests at once.
   * @param bucket of a rate of more than 0
   * @param count 0 only looks, and tells whether the buckets answer
   */
  take(bucket: Bucket, count: number): Promise<Grant>;
  /** The same of a budget of guesses: RateLimiter.settle. */
  settle(bucket: Bucket, count: number, outcome: Outcome): Promise<Grant>;
}

/**
 * How long a call may take, 100 ms, is counted in ticks: while this process itself is held up, time
 * passes but only one tick, and an answer that lies in the socket meanwhile is still read.
 */
const PATIENCE_TICKS = 4;
const TICK_MS = 25;
const PROBE_INTERVAL_MS = 1_000;
/** Asks whether buckets answer: it is taken from by nobody. */
export const PROBE: Bucket = { name: 'probe', rate: 1, burstS: 1 };

interface Question {
  readonly bucket: Bucket;
  readonly count: number;
  /** Of a budget of guesses; undefined: of a bucket of requests. */
  readonly outcome: Outcome | undefined;
}

const PROBING: Question = { bucket: PROBE, count: 0, outcome: undefined };

/** What requests ask of a bucket in one call. */
interface Batch extends Question {
  bucket: Bucket;
  count: number;
  outcome: Outcome | undefined;
  /** undefined: the buckets did not answer. */
  readonly grant: Promise<Grant | undefined>;
}

/**
 * Takes from shared buckets, with natural batching: what is asked of a bucket while a call to it is
 * under way shares the next one, so that a busy client costs one round trip at a time. When the
 * buckets fail or are slow, no request fails: this process limits on its own until they answer
 * again.
 */
export class SharedRateLimiter implements RateLimiter {
  readonly #backend: SharedBuckets;
  readonly #onShared: (isShared: boolean) => void;
  readonly #local = new MemoryRateLimiter();
  /** The batch that gathers, of each bucket that has one. */
  readonly #gathering = new Map<string, Batch>();
  /** The last batch that was begun, of each bucket with one that is not answered. */
  readonly #last = new Map<string, Batch>();
  readonly #prober: NodeJS.Timeout;
  /** undefined: not known yet; the buckets are asked first. */
  #isShared: boolean | undefined;
  /** Asked again after a failure: buckets can answer for some names and not for others. */
  #suspect: Question = PROBING;
  #isProbing = false;

  /** @param onShared told the first state, and every change of it */
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

  /** Ends the probes: from then on the state does not change without a request. */
  stop(): void {
    clearInterval(this.#prober);
  }

  /** Asks together with others. @param alone asks this process, when the buckets do not answer */
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
    // An idle one is asked at the end of the turn of the event loop, so that requests read together
    // go together.
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

  /** Also while all is well: without requests, too, it is known how the buckets are. */
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
