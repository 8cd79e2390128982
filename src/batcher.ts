import { overloaded, Unavailable } from './errors.ts';
import { afterReading, statementDeadline } from './timeouts.ts';

export interface BatcherOptions<Item, Result> {
  /** Answers a batch: one result an item, in order, by the deadline (a performance.now() time). */
  readonly run: (items: readonly Item[], deadlineMs: number) => Promise<readonly Result[]>;
  /** Called with the size of every batch. */
  readonly onBatch: (items: number) => void;
  /** Batches in flight at once. */
  readonly slots: number;
  readonly maxBatchItems: number;
  /** Most bytes in a batch. A single larger call still goes alone. */
  readonly maxBatchBytes: number;
  /** Further items are refused with 503. */
  readonly maxWaitingItems: number;
  /** Deadline of calls that give none: an item without an answer by then is Unavailable. */
  readonly timeoutMs: number;
}

interface Entry<Item, Result> {
  readonly items: readonly Item[];
  readonly bytes: number;
  readonly deadlineMs: number;
  readonly resolve: (results: readonly Result[]) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Natural batching: calls that arrive while a batch is in flight share the next one. An idle
 * batcher flushes at the end of the event loop's turn, so requests that were read together go
 * together. No timer is involved.
 */
export class Batcher<Item, Result> {
  readonly #options: BatcherOptions<Item, Result>;
  #waiting: Entry<Item, Result>[] = [];
  #waitingItems = 0;
  #inFlight = 0;
  #flushScheduled = false;
  #sweep: NodeJS.Timeout | undefined;
  #sweepAtMs = Infinity;

  constructor(options: BatcherOptions<Item, Result>) {
    this.#options = options;
  }

  /**
   * The items of one call stay together. Results come in the order of the items.
   * @param bytes size of the items or of their results
   * @param deadlineMs a performance.now() time, after which the items are Unavailable
   */
  submit(
    items: readonly Item[],
    bytes = 0,
    deadlineMs = performance.now() + this.#options.timeoutMs,
  ): Promise<readonly Result[]> {
    if (items.length === 0) return Promise.resolve([]);
    if (
      this.#waitingItems + items.length > this.#options.maxWaitingItems &&
      this.#waitingItems > 0
    ) {
      return Promise.reject(overloaded());
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ items, bytes, deadlineMs, resolve, reject });
      this.#waitingItems += items.length;
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#flushScheduled || this.#waiting.length === 0) return;
    const { slots } = this.#options;
    if (this.#inFlight >= slots) {
      this.#sweepInTime();
      return;
    }
    this.#flushScheduled = true;
    setImmediate(() => {
      this.#flushScheduled = false;
      while (this.#inFlight < slots && this.#waiting.length > 0) void this.#flush();
      this.#schedule();
    });
  }

  async #flush(): Promise<void> {
    const entries = this.#takeBatch();
    this.#inFlight++;
    await this.#answer(entries);
    this.#inFlight--;
    this.#schedule();
  }

  /**
   * A call with a bad item must not fail the calls beside it, so each call is tried alone. When the
   * time of a call is up, the batch is tried again without that call.
   */
  async #answer(entries: readonly Entry<Item, Result>[]): Promise<void> {
    const items: Item[] = [];
    // flatMap costs several times as much.
    for (const entry of entries) for (const item of entry.items) items.push(item);
    this.#options.onBatch(items.length);
    try {
      const deadlineMs = statementDeadline(earliest(entries));
      const results = await this.#options.run(items, deadlineMs);
      let from = 0;
      for (const entry of entries) {
        entry.resolve(results.slice(from, from + entry.items.length));
        from += entry.items.length;
      }
    } catch (error) {
      if (entries.length === 1 || error instanceof Unavailable) {
        const nowMs = performance.now();
        const inTime = entries.filter((entry) => entry.deadlineMs > nowMs);
        const isCutShort = inTime.length < entries.length;
        for (const entry of entries)
          if (!isCutShort || entry.deadlineMs <= nowMs) entry.reject(error);
        if (isCutShort && inTime.length > 0) await this.#answer(inTime);
        return;
      }
      for (const entry of entries) {
        if (performance.now() < entry.deadlineMs) await this.#answer([entry]);
        else entry.reject(error);
      }
    }
  }

  /** Takes at least one entry. A batch exceeds its limits only with a single entry. */
  #takeBatch(): Entry<Item, Result>[] {
    const { maxBatchItems, maxBatchBytes } = this.#options;
    let items = 0;
    let bytes = 0;
    let count = 0;
    for (const entry of this.#waiting) {
      const fitsItems = items + entry.items.length <= maxBatchItems;
      if (count > 0 && !(fitsItems && bytes + entry.bytes <= maxBatchBytes)) break;
      items += entry.items.length;
      bytes += entry.bytes;
      count++;
    }
    this.#waitingItems -= items;
    return this.#waiting.splice(0, count);
  }

  /**
   * The deadlines of waiting calls are not in order: the second statement of a call has the
   * deadline of the first.
   */
  #sweepInTime(): void {
    const isDue = this.#sweep !== undefined;
    const atMs = isDue ? this.#waiting.at(-1)!.deadlineMs : earliest(this.#waiting);
    if (isDue && atMs >= this.#sweepAtMs) return;
    clearTimeout(this.#sweep);
    this.#sweepAtMs = atMs;
    this.#sweep = afterReading(atMs, () => this.#sweepExpired());
  }

  #sweepExpired(): void {
    this.#sweep = undefined;
    if (this.#flushScheduled) return;
    const nowMs = performance.now();
    this.#waiting = this.#waiting.filter((entry) => {
      if (entry.deadlineMs > nowMs) return true;
      this.#waitingItems -= entry.items.length;
      entry.reject(new Unavailable(new Error('no connection was free in time')));
      return false;
    });
    this.#schedule();
  }
}

function earliest(entries: readonly { readonly deadlineMs: number }[]): number {
  let deadlineMs = Infinity;
  for (const entry of entries) deadlineMs = Math.min(deadlineMs, entry.deadlineMs);
  return deadlineMs;
}
