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

/** The counts of each client, since the start. */
interface Counts {
  requests: number;
  /** Strings of requests that a policy with fields served: replaced, or passed in clear. */
  replaced: number;
  passed: number;
}

/** Requests with one API key. The authenticator increments it for each request that it accepts. */
export interface ApiKeyUse extends Counts {
  readonly countedAs: string;
  /** The part of `requests` that the vault has recorded. */
  written: number;
}

/**
 * Counts the uses of API keys in memory, and writes the time of their last use to the vault once a
 * minute. If a write fails, the next one catches up.
 */
export class ApiKeyUses {
  readonly #store: ApiKeyStore;
  readonly #uses = new Map<string, ApiKeyUse>();
  /** Of API keys that have ended, by `countedAs`. */
  readonly #former = new Map<string, Counts>();
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
   * The count of an API key, kept from its first use until the key ends.
   * @param rank of its client by age; the oldest has 0
   */
  of(apiKeyId: string, clientId: string, rank: number): ApiKeyUse {
    let use = this.#uses.get(apiKeyId);
    if (use === undefined) {
      const countedAs = isCounted(rank) ? clientId : OTHER_CLIENTS;
      use = { countedAs, requests: 0, replaced: 0, passed: 0, written: 0 };
      this.#uses.set(apiKeyId, use);
    }
    return use;
  }

  /** Drops all other API keys whose uses are written. Their requests stay in the totals. */
  keepOnly(apiKeyIds: ReadonlySet<string>): void {
    for (const [apiKeyId, use] of this.#uses) {
      if (apiKeyIds.has(apiKeyId) || use.requests > use.written) continue;
      this.#uses.delete(apiKeyId);
      addUse(this.#former, use);
    }
  }

  /** The counts since the start, by client. */
  counts(): ReadonlyMap<string, Readonly<Counts>> {
    const sums = new Map([...this.#former].map(([client, counts]) => [client, { ...counts }]));
    for (const use of this.#uses.values()) addUse(sums, use);
    return sums;
  }

  async #write(timeoutMs: number): Promise<void> {
    const used = [...this.#uses].filter(([, { requests, written }]) => requests > written);
    if (used.length === 0) return;
    this.#writtenAtMs = performance.now();
    const counts = used.map(([, use]) => [use, use.requests] as const);
    try {
      const apiKeyIds = used.map(([apiKeyId]) => apiKeyId);
      await this.#store.markUsed(apiKeyIds, performance.now() + timeoutMs);
      for (const [use, requests] of counts) use.written = requests;
    } catch {
      // The database is away, or has an older schema. Requests do not depend on this write.
    }
  }
}

function addUse(sums: Map<string, Counts>, { countedAs, requests, replaced, passed }: ApiKeyUse) {
  if (requests === 0) return;
  const sum = sums.get(countedAs) ?? { requests: 0, replaced: 0, passed: 0 };
  sum.requests += requests;
  sum.replaced += replaced;
  sum.passed += passed;
  sums.set(countedAs, sum);
}
