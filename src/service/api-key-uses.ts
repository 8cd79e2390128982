import type { ApiKeyUseStore } from '../store/api-key-uses.ts';

/** More clients than these are counted together: every one is a series of the metrics. */
const MAX_COUNTED_CLIENTS = 1_000;
const OTHER_CLIENTS = 'other';

/** Clients whose requests are counted under their own id: the same in all processes. */
export function isCounted(rank: number): boolean {
  return rank < MAX_COUNTED_CLIENTS;
}

const LOOK_INTERVAL_MS = 5_000;
const WRITE_INTERVAL_MS = 60_000;
const WRITE_PATIENCE_MS = 4_000;
/** The process is about to end. */
const LAST_WRITE_PATIENCE_MS = 500;

/** Counted up by whoever lets a request in. */
export interface ApiKeyUse {
  readonly counted_as: string;
  requests: number;
  /** Of these, how many the vault knows of. */
  written: number;
}

/**
 * How often API keys are used, counted in memory, and the time of their last use, which goes into
 * the vault once a minute. A write that fails is made up for by the next.
 */
export class ApiKeyUses {
  readonly #store: ApiKeyUseStore;
  readonly #uses = new Map<string, ApiKeyUse>();
  /** Of API keys that have ended, by what they are counted as. */
  readonly #former = new Map<string, number>();
  #written_at_ms = -Infinity;
  #timer: NodeJS.Timeout | undefined;

  constructor(store: ApiKeyUseStore) {
    this.#store = store;
  }

  start(): void {
    this.#timer = setInterval(() => {
      if (performance.now() - this.#written_at_ms >= WRITE_INTERVAL_MS)
        void this.#write(WRITE_PATIENCE_MS);
    }, LOOK_INTERVAL_MS);
    this.#timer.unref();
  }

  /** Resolves when what was not written is, or cannot be. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#write(LAST_WRITE_PATIENCE_MS);
  }

  /**
   * The count of an API key, kept from its first time on until it ends.
   * @param rank of its client, the oldest is 0
   */
  of(api_key_id: string, client_id: string, rank: number): ApiKeyUse {
    let use = this.#uses.get(api_key_id);
    if (use === undefined) {
      use = { counted_as: isCounted(rank) ? client_id : OTHER_CLIENTS, requests: 0, written: 0 };
      this.#uses.set(api_key_id, use);
    }
    return use;
  }

  /** Forgets all others, but not how often they were used, once the vault knows of it. */
  keepOnly(api_key_ids: ReadonlySet<string>): void {
    for (const [api_key_id, { counted_as, requests, written }] of this.#uses) {
      if (api_key_ids.has(api_key_id) || requests > written) continue;
      this.#uses.delete(api_key_id);
      if (requests > 0)
        this.#former.set(counted_as, (this.#former.get(counted_as) ?? 0) + requests);
    }
  }

  /** Since the start, by client. */
  requests(): Map<string, number> {
    const sums = new Map(this.#former);
    for (const { counted_as, requests } of this.#uses.values()) {
      if (requests > 0) sums.set(counted_as, (sums.get(counted_as) ?? 0) + requests);
    }
    return sums;
  }

  async #write(patience_ms: number): Promise<void> {
    const used = [...this.#uses].filter(([, { requests, written }]) => requests > written);
    if (used.length === 0) return;
    this.#written_at_ms = performance.now();
    const counts = used.map(([, use]) => [use, use.requests] as const);
    try {
      const api_key_ids = used.map(([api_key_id]) => api_key_id);
      await this.#store.mark(api_key_ids, performance.now() + patience_ms);
      for (const [use, requests] of counts) use.written = requests;
    } catch {
      // The database is away, or an older schema is restored: requests do not depend on this.
    }
  }
}
