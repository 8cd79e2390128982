import { CallerError, Unavailable } from './errors.ts';
import { afterReading } from './timeouts.ts';

export interface BatcherOptions<Item, Result> {
  /** Answers a batch, one result an item, in order, by the deadline (a performance.now() time). */
  readonly run: (items: readonly Item[], deadline_ms: number) => Promise<readonly Result[]>;
  /** Told the size of every batch. */
  readonly onBatch: (items: number) => void;
  /** Batches in flight at once. */
  readonly lanes: number;
  readonly max_batch_items: number;
  /** What the items of a batch weigh together, unless one call alone weighs more. */
  readonly max_batch_bytes: number;
  /** Items waiting beyond this are refused with 503. */
  readonly max_waiting_items: number;
  /** An item that has no answer after this long is Unavailable, if its call has no deadline. */
  readonly patience_ms: number;
}

/** For a batch that the process came to late because it stood still. */
const LEAST_PATIENCE_MS = 500;

interface Entry<Item, Result> {
  readonly items: readonly Item[];
  readonly bytes: number;
  readonly deadline_ms: number;
  readonly resolve: (results: readonly Result[]) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Natural batching: what arrives while a batch is in flight shares the next one. An idle batcher
 * flushes at the end of the turn of the event loop, so that requests read together go together;
 * there is no timer to wait for.
 */
export class Batcher<Item, Result> {
  readonly #options: BatcherOptions<Item, Result>;
  #waiting: Entry<Item, Result>[] = [];
  #waiting_items = 0;
  #in_flight = 0;
  #flush_scheduled = false;
  #sweep: NodeJS.Timeout | undefined;
  #sweep_at_ms = Infinity;

  constructor(options: BatcherOptions<Item, Result>) {
    this.#options = options;
  }

  /**
   * The items of one call stay together; results come in their order.
   * @param bytes what the items weigh, or their results
   * @param deadline_ms a performance.now() time, after which they are Unavailable
   */
  submit(
    items: readonly Item[],
    bytes = 0,
    deadline_ms = performance.now() + this.#options.patience_ms,
  ): Promise<readonly Result[]> {
    if (items.length === 0) return Promise.resolve([]);
    if (
      this.#waiting_items + items.length > this.#options.max_waiting_items &&
      this.#waiting_items > 0
    ) {
      return Promise.reject(new CallerError('overloaded', '', 1));
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ items, bytes, deadline_ms, resolve, reject });
      this.#waiting_items += items.length;
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#flush_scheduled || this.#waiting.length === 0) return;
    if (this.#in_flight >= this.#options.lanes) {
      this.#sweepInTime();
      return;
    }
    this.#flush_scheduled = true;
    setImmediate(() => {
      this.#flush_scheduled = false;
      while (this.#in_flight < this.#options.lanes && this.#waiting.length > 0) void this.#flush();
      this.#schedule();
    });
  }

  async #flush(): Promise<void> {
    const entries = this.#takeBatch();
    this.#in_flight++;
    await this.#answer(entries);
    this.#in_flight--;
    this.#schedule();
  }

  /**
   * A call that fails for what is in it must not fail those beside it: each is tried alone. Nor
   * does a call that has no time left: the others are tried again without it.
   */
  async #answer(entries: readonly Entry<Item, Result>[]): Promise<void> {
    const items =
      entries.length === 1 ? entries[0]!.items : entries.flatMap((entry) => entry.items);
    this.#options.onBatch(items.length);
    try {
      const deadline_ms = Math.max(earliest(entries), performance.now() + LEAST_PATIENCE_MS);
      const results = await this.#options.run(items, deadline_ms);
      let from = 0;
      for (const entry of entries) {
        entry.resolve(results.slice(from, from + entry.items.length));
        from += entry.items.length;
      }
    } catch (error) {
      if (entries.length === 1 || error instanceof Unavailable) {
        const now_ms = performance.now();
        const in_time = entries.filter((entry) => entry.deadline_ms > now_ms);
        const is_cut_short = in_time.length < entries.length;
        for (const entry of entries)
          if (!is_cut_short || entry.deadline_ms <= now_ms) entry.reject(error);
        if (is_cut_short && in_time.length > 0) await this.#answer(in_time);
        return;
      }
      for (const entry of entries) {
        if (performance.now() < entry.deadline_ms) await this.#answer([entry]);
        else entry.reject(error);
      }
    }
  }

  /** At least one entry, and no more than a batch may have unless that one has more. */
  #takeBatch(): Entry<Item, Result>[] {
    const { max_batch_items, max_batch_bytes } = this.#options;
    let items = 0;
    let bytes = 0;
    let count = 0;
    for (const entry of this.#waiting) {
      const fits_items = items + entry.items.length <= max_batch_items;
      if (count > 0 && !(fits_items && bytes + entry.bytes <= max_batch_bytes)) break;
      items += entry.items.length;
      bytes += entry.bytes;
      count++;
    }
    this.#waiting_items -= items;
    return this.#waiting.splice(0, count);
  }

  /** Deadlines are not in order: the second statement of a call has what the first one left. */
  #sweepInTime(): void {
    const is_due = this.#sweep !== undefined;
    const at_ms = is_due ? this.#waiting.at(-1)!.deadline_ms : earliest(this.#waiting);
    if (is_due && at_ms >= this.#sweep_at_ms) return;
    clearTimeout(this.#sweep);
    this.#sweep_at_ms = at_ms;
    this.#sweep = afterReading(at_ms, () => this.#sweepExpired());
  }

  #sweepExpired(): void {
    this.#sweep = undefined;
    if (this.#flush_scheduled) return;
    const now_ms = performance.now();
    this.#waiting = this.#waiting.filter((entry) => {
      if (entry.deadline_ms > now_ms) return true;
      this.#waiting_items -= entry.items.length;
      entry.reject(new Unavailable(new Error('no connection was free in time')));
      return false;
    });
    this.#schedule();
  }
}

function earliest(entries: readonly { readonly deadline_ms: number }[]): number {
  let deadline_ms = Infinity;
  for (const entry of entries) deadline_ms = Math.min(deadline_ms, entry.deadline_ms);
  return deadline_ms;
}
