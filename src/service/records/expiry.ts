import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from '../../store/pool.ts';
import { RemovalStore } from '../../store/removal.ts';
import { REQUEST_PATIENCE_MS } from '../../timeouts.ts';
import { Throttle } from './throttle.ts';

/** Rows that a statement locks, for some 10 ms. */
const BATCH_RECORDS = 500;
/** At 14 us of its CPU each, a fourteenth of a core of the database. */
const RECORDS_PER_S = 5_000;
/** Nobody waits for it: what has expired is unknown at once. */
const IDLE_PAUSE_MS = 5_000;
const FAILURE_PAUSE_MS = 30_000;

export interface ExpiryOptions {
  readonly pool: Pool;
  /** The database was away, or this user may not update records; it is tried again. */
  readonly onFailure: (error: unknown) => void;
  readonly idlePauseMs?: number;
}

/**
 * Removes the values of expired records in the background. Several nodes may do so at once: one of
 * them removes, the others find nothing left.
 */
export class Expiry {
  /** Records that this process has removed the values of. */
  removed = 0;
  readonly #options: ExpiryOptions;
  readonly #removals: RemovalStore;
  readonly #throttle = new Throttle(RECORDS_PER_S);
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;

  constructor(options: ExpiryOptions) {
    this.#options = options;
    this.#removals = new RemovalStore(options.pool);
    this.#ended = this.#run();
  }

  /** Resolves after the statement that is under way. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const pauseMs = await this.#removeBatch();
      if (pauseMs > 0) await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  /** How long to wait before the next. */
  async #removeBatch(): Promise<number> {
    const { onFailure, idlePauseMs = IDLE_PAUSE_MS } = this.#options;
    try {
      const deadlineMs = performance.now() + REQUEST_PATIENCE_MS;
      const { found, removed } = await this.#removals.removeExpired(BATCH_RECORDS, deadlineMs);
      this.removed += removed;
      await this.#throttle.pass(found, this.#stop.signal);
      return found < BATCH_RECORDS ? idlePauseMs : 0;
    } catch (error) {
      onFailure(error);
      return FAILURE_PAUSE_MS;
    }
  }
}
