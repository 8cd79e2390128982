import {
  afterwards,
  type Bucket,
  type Buckets,
  type Grant,
  MemoryBuckets,
  NO_OUTCOME,
  type Outcome,
} from './buckets.ts';
import type { RedisBuckets } from './redis-buckets.ts';

/** The buckets that SharedBuckets asks. */
type RemoteBuckets = Pick<RedisBuckets, 'charge' | 'failure' | 'close'>;

/** Called when sharing ends, with the failure, and when it resumes. */
type OnSharing = (isShared: boolean, failure: string | undefined) => void;

/**
 * Opens the buckets of a process. A Redis that hangs delays the start by at most 3 s, and nothing
 * else.
 * @param redisUrl the Redis that nodes share limits in; undefined: each node limits alone
 */
export async function openBuckets(
  redisUrl: string | undefined,
  onSharing: OnSharing,
): Promise<Buckets> {
  if (redisUrl === undefined) return new MemoryBuckets();
  // Loading the client library takes 0.1 s, so only nodes that use Redis load it.
  const { RedisBuckets } = await import('./redis-buckets.ts');
  return new SharedBuckets(await RedisBuckets.open(redisUrl), onSharing);
}

/**
 * A call may take 100 ms, counted in ticks. When this process itself is held up, only one tick
 * passes, so an answer that already waits in the socket is still read.
 */
const TIMEOUT_TICKS = 4;
const TICK_MS = 25;
const PROBE_INTERVAL_MS = 1_000;
/** Checks whether the buckets answer. No request takes from this bucket. */
export const PROBE: Bucket = { name: 'probe', rate: 1, burstS: 1, isBudget: false };

/** Requests that share one call to a bucket. */
interface BucketBatch {
  bucket: Bucket;
  count: number;
  outcome: Outcome;
  /** Resolves to undefined when the buckets do not answer. */
  readonly grant: Promise<Grant | undefined>;
}

/**
 * Takes from buckets that several processes share. Requests that arrive during a call to a bucket
 * share the next call, so a busy client costs one round trip at a time.
 * No request fails when the buckets fail or are slow: this process limits alone until they answer
 * again.
 */
export class SharedBuckets implements Buckets {
  isShared = true;
  readonly #remote: RemoteBuckets;
  readonly #onSharing: OnSharing;
  readonly #local = new MemoryBuckets();
  /** For each bucket, the batch that still accepts requests. */
  readonly #gathering = new Map<string, BucketBatch>();
  /** For each bucket, the last batch that was started and not answered. */
  readonly #last = new Map<string, BucketBatch>();
  readonly #prober: NodeJS.Timeout;
  #isClosed = false;
  /** The bucket to read after a failure: Redis can answer for some names and not for others. */
  #suspect = PROBE;
  #isProbing = false;

  constructor(remote: RemoteBuckets, onSharing: OnSharing) {
    this.#remote = remote;
    this.#onSharing = onSharing;
    this.#prober = setInterval(() => void this.#probe(), PROBE_INTERVAL_MS).unref();
    void this.#probe();
  }

  charge(bucket: Bucket, count: number, outcome: Outcome): Grant | Promise<Grant> {
    const shared = this.isShared ? this.#join(bucket, count, outcome) : undefined;
    return afterwards(shared, (grant) => grant ?? this.#local.charge(bucket, count, outcome));
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#prober);
    this.#remote.close();
  }

  /** Resolves to the part of the batch's grant that this request gets. */
  async #join(bucket: Bucket, count: number, outcome: Outcome): Promise<Grant | undefined> {
    const batch = this.#gathering.get(bucket.name) ?? this.#begin(bucket);
    const place = batch.count;
    batch.bucket = bucket;
    batch.count += count;
    batch.outcome = sum(batch.outcome, outcome);
    const grant = await batch.grant;
    return grant && { ...grant, granted: Math.max(0, Math.min(grant.granted - place, count)) };
  }

  #begin(bucket: Bucket): BucketBatch {
    const { name } = bucket;
    // Wait for the end of this turn of the event loop, so that requests read in the same turn share
    // the call.
    const turn =
      this.#last.get(name)?.grant ?? new Promise<void>((resolve) => setImmediate(resolve));
    const grant = turn.then(() => this.#send(name));
    const batch: BucketBatch = { bucket, count: 0, outcome: NO_OUTCOME, grant };
    this.#gathering.set(name, batch);
    this.#last.set(name, batch);
    return batch;
  }

  async #send(name: string): Promise<Grant | undefined> {
    const batch = this.#gathering.get(name)!;
    this.#gathering.delete(name);
    try {
      if (!this.isShared) return undefined;
      return await inTime(this.#remote.charge(batch.bucket, batch.count, batch.outcome));
    } catch {
      this.#suspect = batch.bucket;
      this.#setShared(false);
      return undefined;
    } finally {
      if (this.#last.get(name) === batch) this.#last.delete(name);
    }
  }

  /** Runs while all is well, too, so that the state is known even without requests. */
  async #probe(): Promise<void> {
    if (this.#isProbing) return;
    this.#isProbing = true;
    try {
      await inTime(this.#remote.charge(this.#suspect, 0));
      this.#suspect = PROBE;
      this.#setShared(true);
    } catch {
      this.#setShared(false);
    } finally {
      this.#isProbing = false;
    }
  }

  #setShared(isShared: boolean): void {
    if (this.#isClosed || this.isShared === isShared) return;
    this.isShared = isShared;
    const failure = isShared ? undefined : (this.#remote.failure ?? 'no answer in time');
    this.#onSharing(isShared, failure);
  }
}

/** @throws Error when the answer takes longer than a call may */
export function inTime<T>(answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    let ticks = 0;
    const timer = setInterval(() => {
      if (++ticks < TIMEOUT_TICKS) return;
      clearInterval(timer);
      reject(new Error('no answer in time'));
    }, TICK_MS);
    answer.then(resolve, reject).finally(() => clearInterval(timer));
  });
}

function sum(one: Outcome, other: Outcome): Outcome {
  return {
    ended: one.ended + other.ended,
    known: one.known + other.known,
    unknown: one.unknown + other.unknown,
    guessed: one.guessed + other.guessed,
  };
}
