import { MemoryRateLimiter, type RateLimiter, type RetryAfter } from './rate-limit.ts';

/** What a bucket gave. */
export interface Grant {
  /** How many of the requests go on: the first ones. */
  readonly granted: number;
  /** Whole seconds after which one more would; of no meaning when all were granted. */
  readonly retry_after_s: number;
}

/** Buckets that several processes take from. */
export interface SharedBuckets {
  /**
   * Takes for several requests of a client at once.
   * @param rate requests a second, more than 0
   * @param requests 0 asks only whether the buckets answer
   */
  take(client_id: string, rate: number, requests: number): Promise<Grant>;
}

/**
 * How long a call may take, 100 ms, is counted in ticks: while this process itself is held up, time
 * passes but only one tick, and an answer that lies in the socket meanwhile is still read.
 */
const PATIENCE_TICKS = 4;
const TICK_MS = 25;
const PROBE_INTERVAL_MS = 1_000;
const PROBE = { client_id: 'probe', rate: 1 };

/** Requests of a client that are asked for in one call. */
interface Batch {
  rate: number;
  requests: number;
  /** undefined: the buckets did not answer. */
  readonly grant: Promise<Grant | undefined>;
}

/**
 * Takes from shared buckets, with natural batching: what a client asks for while a call of its is
 * under way shares the next one, so that a busy client costs one round trip at a time. When the
 * buckets fail or are slow, no request fails: this process limits on its own until they answer
 * again.
 */
export class SharedRateLimiter implements RateLimiter {
  readonly #backend: SharedBuckets;
  readonly #onShared: (is_shared: boolean) => void;
  readonly #local = new MemoryRateLimiter();
  /** The batch that gathers, of each client that has one. */
  readonly #gathering = new Map<string, Batch>();
  /** The last batch that was begun, of each client with one that is not answered. */
  readonly #last = new Map<string, Batch>();
  readonly #prober: NodeJS.Timeout;
  /** undefined: not known yet; the buckets are asked first. */
  #is_shared: boolean | undefined;
  /** Asked again after a failure: buckets can answer for some clients and not for others. */
  #suspect = PROBE;
  #is_probing = false;

  /** @param onShared told the first state, and every change of it */
  constructor(backend: SharedBuckets, onShared: (is_shared: boolean) => void) {
    this.#backend = backend;
    this.#onShared = onShared;
    this.#prober = setInterval(() => void this.#probe(), PROBE_INTERVAL_MS).unref();
    void this.#probe();
  }

  take(client_id: string, rate: number): RetryAfter | Promise<RetryAfter> {
    if (rate === 0) return undefined;
    if (this.#is_shared === false) return this.#local.take(client_id, rate);
    const batch = this.#gathering.get(client_id) ?? this.#begin(client_id);
    batch.rate = rate;
    const place = batch.requests++;
    return batch.grant.then((grant) => {
      if (grant === undefined) return this.#local.take(client_id, rate);
      return place < grant.granted ? undefined : grant.retry_after_s;
    });
  }

  /** Ends the probes: from then on the state does not change without a request. */
  stop(): void {
    clearInterval(this.#prober);
  }

  #begin(client_id: string): Batch {
    // An idle client is asked for at the end of the turn of the event loop, so that requests read
    // together go together.
    const turn =
      this.#last.get(client_id)?.grant ?? new Promise<void>((resolve) => setImmediate(resolve));
    const batch: Batch = { rate: 0, requests: 0, grant: turn.then(() => this.#ask(client_id)) };
    this.#gathering.set(client_id, batch);
    this.#last.set(client_id, batch);
    return batch;
  }

  async #ask(client_id: string): Promise<Grant | undefined> {
    const batch = this.#gathering.get(client_id)!;
    this.#gathering.delete(client_id);
    try {
      if (this.#is_shared === false) return undefined;
      return await answerInTime(this.#backend.take(client_id, batch.rate, batch.requests));
    } catch {
      this.#suspect = { client_id, rate: batch.rate };
      this.#setShared(false);
      return undefined;
    } finally {
      if (this.#last.get(client_id) === batch) this.#last.delete(client_id);
    }
  }

  /** Also while all is well: without requests, too, it is known how the buckets are. */
  async #probe(): Promise<void> {
    if (this.#is_probing) return;
    this.#is_probing = true;
    const { client_id, rate } = this.#suspect;
    try {
      await answerInTime(this.#backend.take(client_id, rate, 0));
      this.#suspect = PROBE;
      this.#setShared(true);
    } catch {
      this.#setShared(false);
    } finally {
      this.#is_probing = false;
    }
  }

  #setShared(is_shared: boolean): void {
    if (this.#is_shared === is_shared) return;
    this.#is_shared = is_shared;
    this.#onShared(is_shared);
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
