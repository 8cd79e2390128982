import { isApiKey } from '../crypto/api-key.ts';
import type { Keyring } from '../crypto/keyring.ts';
import { CallerError } from '../errors.ts';
import type { ApiKeyRow, ApiKeyStore } from '../store/api-keys.ts';
import type { ClientStore } from '../store/clients.ts';
import type { Client } from '../types.ts';
import type { ApiKeyUse, ApiKeyUses } from './api-key-uses.ts';
import { REQUEST_PATIENCE_MS } from './vault.ts';

/** Who a request comes from. */
export interface Caller {
  readonly client: Client;
  readonly api_key_id: string;
}

/** A revocation is in force after this and the time of a query. */
const REFRESH_INTERVAL_MS = 2_000;
/** Older than this, what is in memory is not believed: the request waits for the database. */
const MAX_AGE_MS = 4_000;
/** Unknown API keys ask the database, together, no more often than this. */
const MISS_INTERVAL_MS = 250;
const MAX_WAITING = 1_000;
const BEARER = /^bearer +([^\s]+)$/i;

interface Entry extends Caller {
  readonly expires_at_ms: number;
  readonly use: ApiKeyUse;
}

/** Tells callers by their API keys, from a copy in memory of all live ones: no query a request. */
export class Authenticator {
  readonly #clients: ClientStore;
  readonly #api_keys: ApiKeyStore;
  readonly #keyring: Keyring;
  readonly #uses: ApiKeyUses;
  #by_digest: ReadonlyMap<string, Entry> = new Map();
  /**
   * By Authorization header, of those seen since the last refresh: spares a digest a request. Only
   * of live API keys, in one spelling each, so it is bounded.
   */
  #by_header = new Map<string, Entry>();
  #loaded_at_ms = -Infinity;
  #started_at_ms = -Infinity;
  #next: Promise<void> | undefined;
  #waiting = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(clients: ClientStore, api_keys: ApiKeyStore, keyring: Keyring, uses: ApiKeyUses) {
    this.#clients = clients;
    this.#api_keys = api_keys;
    this.#keyring = keyring;
    this.#uses = uses;
  }

  /**
   * Loads the copy, and from then on renews it in the background, also when the first load has
   * failed: then requests ask the database.
   */
  async start(): Promise<void> {
    this.#timer = setInterval(() => this.#load().catch(() => {}), REFRESH_INTERVAL_MS);
    this.#timer.unref();
    await this.#load();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /**
   * The caller of an Authorization header. Synchronous for an API key that is known.
   * @throws CallerError unauthorized, InternalError when the database must be asked and does not
   * answer
   */
  authenticate(authorization: string | undefined): Caller | Promise<Caller> {
    const known = this.#by_header.get(authorization ?? '');
    if (known !== undefined && this.#isFresh()) return live(known);
    const api_key = BEARER.exec(authorization ?? '')?.[1];
    if (api_key === undefined) throw new CallerError('unauthorized');
    if (!isApiKey(api_key)) throw new CallerError('unauthorized');
    const found = this.#isFresh() ? this.#find(api_key) : undefined;
    return found === undefined ? this.#findInDatabase(api_key) : live(found);
  }

  #isFresh(): boolean {
    return performance.now() - this.#loaded_at_ms < MAX_AGE_MS;
  }

  #find(api_key: string): Entry | undefined {
    const found = this.#by_digest.get(this.#keyring.apiKeyDigest(api_key));
    if (found !== undefined) this.#by_header.set(`Bearer ${api_key}`, found);
    return found;
  }

  /** A key that was issued a moment ago, elsewhere, works at once. */
  async #findInDatabase(api_key: string): Promise<Caller> {
    if (this.#waiting >= MAX_WAITING) throw new CallerError('overloaded', '', 1);
    this.#waiting++;
    try {
      await this.#nextLoad();
    } finally {
      this.#waiting--;
    }
    const found = this.#find(api_key);
    if (found === undefined) throw new CallerError('unauthorized');
    return live(found);
  }

  /** A load that starts after this call: one under way may have read too early. */
  #nextLoad(): Promise<void> {
    this.#next ??= new Promise((resolve, reject) => {
      const pause_ms = this.#started_at_ms + MISS_INTERVAL_MS - performance.now();
      setTimeout(
        () => {
          this.#next = undefined;
          this.#load().then(resolve, reject);
        },
        Math.max(0, pause_ms),
      );
    });
    return this.#next;
  }

  async #load(): Promise<void> {
    const started_at_ms = performance.now();
    this.#started_at_ms = started_at_ms;
    const deadline_ms = started_at_ms + REQUEST_PATIENCE_MS;
    const [clients, api_keys] = await Promise.all([
      this.#clients.list(deadline_ms),
      this.#api_keys.listLive(deadline_ms),
    ]);
    // A slow load that ends after a later one has older facts.
    if (started_at_ms < this.#loaded_at_ms) return;
    const by_id = new Map(clients.map((client, rank) => [client.client_id, { client, rank }]));
    this.#by_digest = new Map(
      api_keys.map((row) => {
        const { client, rank } = by_id.get(row.client_id)!;
        const use = this.#uses.of(row.api_key_id, client.client_id, rank);
        return [row.digest, entryOf(row, client, use)];
      }),
    );
    this.#by_header = new Map();
    this.#loaded_at_ms = started_at_ms;
  }
}

function entryOf(row: ApiKeyRow, client: Client, use: ApiKeyUse): Entry {
  return {
    client,
    api_key_id: row.api_key_id,
    expires_at_ms: row.expires_at?.getTime() ?? Infinity,
    use,
  };
}

function live(entry: Entry): Caller {
  if (entry.expires_at_ms <= Date.now()) throw new CallerError('unauthorized');
  entry.use.requests++;
  return entry;
}
