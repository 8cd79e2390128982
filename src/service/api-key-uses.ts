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
  readonly countedAs: string;
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
  #writtenAtMs = -Infinity;
  #timer: NodeJS.Timeout | undefined;

  constructor(store: ApiKeyUseStore) {
    this.#store = store;
  }

  start(): void {
    this.#timer = setInterval(() => {
      if (performance.now() - this.#writtenAtMs >= WRITE_INTERVAL_MS)
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
  of(apiKeyId: string, clientId: string, rank: number): ApiKeyUse {
    let use = this.#uses.get(apiKeyId);
    if (use === undefined) {
      use = { countedAs: isCounted(rank) ? clientId : OTHER_CLIENTS, requests: 0, written: 0 };
      this.#uses.set(apiKeyId, use);
    }
    return use;
  }

  /** Forgets all others, but not how often they were used, once the vault knows of it. */
  keepOnly(apiKeyIds: ReadonlySet<string>): void {
    for (const [apiKeyId, { countedAs, requests, written }] of this.#uses) {
      if (apiKeyIds.has(apiKeyId) || requests > written) continue;
      this.#uses.delete(apiKeyId);
      if (requests > 0) this.#former.set(countedAs, (this.#former.get(countedAs) ?? 0) + requests);
    }
  }

  /** Since the start, by client. */
  requests(): Map<string, number> {
    const sums = new Map(this.#former);
    for (const { countedAs, requests } of this.#uses.values()) {
      if (requests > 0) sums.set(countedAs, (sums.get(countedAs) ?? 0) + requests);
    }
    return sums;
  }

  async #write(patienceMs: number): Promise<void> {
    const used = [...this.#uses].filter(([, { requests, written }]) => requests > written);
    if (used.length === 0) return;
    this.#writtenAtMs = performance.now();
    const counts = used.map(([, use]) => [use, use.requests] as const);
    try {
      const apiKeyIds = used.map(([apiKeyId]) => apiKeyId);
      await this.#store.mark(apiKeyIds, performance.now() + patienceMs);
      for (const [use, requests] of counts) use.written = requests;
    } catch {
      // The database is away, or an older schema is restored: requests do not depend on this.
    }
  }
}
