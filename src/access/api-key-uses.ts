import type { ApiKeyStore } from '../store/api-keys.ts';

/** Further clients are counted together, because each client is a series of the metrics. */
const MAX_COUNTED_CLIENTS = 1_000;
const OTHER_CLIENTS = 'other';

/**
 * Whether a client is counted under its own id. All processes agree, because they rank clients by
 * age.
 */
export function isCounted(rank: number): boolean {
  return rank < MAX_COUNTED_CLIENTS;
}

const POLL_INTERVAL_MS = 5_000;
const WRITE_INTERVAL_MS = 60_000;
const WRITE_TIMEOUT_MS = 4_000;
/** Shorter, because the process is about to end. */
const LAST_WRITE_TIMEOUT_MS = 500;

/** The counts of a client since the start. */
interface Counts {
  requests: number;
  /** Strings of requests that a policy with fields served: replaced, or passed in clear. */
  replaced: number;
  passed: number;
}

/** The uses of one API key. The authenticator notes each request that it accepts. */
export interface ApiKeyUse {
  /** Of its client: API keys of one client share them. */
  readonly counts: Counts;
  /** Whether the vault has not recorded the last use. */
  isUnwritten: boolean;
}

/**
 * Counts the uses of API keys in memory, and writes the time of their last use to the vault once a
 * minute. If a write fails, the next one catches up.
 */
export class ApiKeyUses {
  readonly #store: ApiKeyStore;
  readonly #uses = new Map<string, ApiKeyUse>();
  readonly #counts = new Map<string, Counts>();
  #writtenAtMs = -Infinity;
  #timer: NodeJS.Timeout | undefined;

  constructor(store: ApiKeyStore) {
    this.#store = store;
  }

  start(): void {
    this.#timer = setInterval(() => {
      if (performance.now() - this.#writtenAtMs >= WRITE_INTERVAL_MS)
        void this.#write(WRITE_TIMEOUT_MS);
    }, POLL_INTERVAL_MS);
    this.#timer.unref();
  }

  /** Writes the last uses. Resolves also when the write fails. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#write(LAST_WRITE_TIMEOUT_MS);
  }

  /**
   * The uses of an API key, kept from the first one until the key ends.
   * @param rank of its client by age; the oldest has 0
   */
  of(apiKeyId: string, clientId: string, rank: number): ApiKeyUse {
    let use = this.#uses.get(apiKeyId);
    if (use === undefined) {
      const countedAs = isCounted(rank) ? clientId : OTHER_CLIENTS;
      const counts = this.#counts.get(countedAs) ?? { requests: 0, replaced: 0, passed: 0 };
      this.#counts.set(countedAs, counts);
      use = { counts, isUnwritten: false };
      this.#uses.set(apiKeyId, use);
    }
    return use;
  }

  /** Drops all other API keys whose uses are written. Their requests stay in the counts. */
  keepOnly(apiKeyIds: ReadonlySet<string>): void {
    for (const [apiKeyId, { isUnwritten }] of this.#uses)
      if (!apiKeyIds.has(apiKeyId) && !isUnwritten) this.#uses.delete(apiKeyId);
  }

  /** The counts since the start, by client, without clients that sent no request. */
  counts(): ReadonlyMap<string, Readonly<Counts>> {
    return new Map([...this.#counts].filter(([, { requests }]) => requests > 0));
  }

  async #write(timeoutMs: number): Promise<void> {
    const used = [...this.#uses].filter(([, { isUnwritten }]) => isUnwritten);
    if (used.length === 0) return;
    this.#writtenAtMs = performance.now();
    // Before the write: a use during it is one of the next.
    for (const [, use] of used) use.isUnwritten = false;
    try {
      const apiKeyIds = used.map(([apiKeyId]) => apiKeyId);
      await this.#store.markUsed(apiKeyIds, performance.now() + timeoutMs);
    } catch {
      // The database is away, or has an older schema. Requests do not depend on this write.
      for (const [apiKeyId, written] of used) {
        // Dropped during the write, and perhaps used again.
        const use = this.#uses.get(apiKeyId) ?? written;
        use.isUnwritten = true;
        this.#uses.set(apiKeyId, use);
      }
    }
  }
}
