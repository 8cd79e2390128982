import { setTimeout as sleep } from 'node:timers/promises';
import { isApiKey } from '../crypto/api-key.ts';
import type { Keyring } from '../crypto/keyring.ts';
import { CallerError } from '../errors.ts';
import type { ApiKeyStore, LiveApiKey } from '../store/api-keys.ts';
import { REQUEST_PATIENCE_MS } from '../timeouts.ts';
import type { Client } from '../types.ts';
import type { ApiKeyUse, ApiKeyUses } from './api-key-uses.ts';

/** The client and API key behind a request. */
export interface Caller {
  readonly client: Client;
  readonly api_key_id: string;
}

/** A revocation takes effect after this time, plus one query. */
const REFRESH_INTERVAL_MS = 2_000;
/** A copy older than this is not used: the request waits for the database. */
const MAX_AGE_MS = 4_000;
/** Unknown API keys share one query to the database, at most this often. */
const MISS_INTERVAL_MS = 250;
const MAX_WAITING = 1_000;
const BEARER = /^bearer +([^\s]+)$/i;

interface Entry extends Caller {
  readonly expiresAtMs: number;
  readonly use: ApiKeyUse;
}

/**
 * Identifies callers by API key, from a copy of all live keys in memory. So most requests need no
 * query.
 */
export class Authenticator {
  readonly #apiKeys: ApiKeyStore;
  readonly #keyring: Keyring;
  readonly #uses: ApiKeyUses;
  #byDigest = new Map<string, Entry>();
  /**
   * Entries by Authorization header since the last refresh, which saves a digest for each request.
   * The map is bounded: it holds live API keys only, each in one spelling.
   */
  #byHeader = new Map<string, Entry>();
  #loadedAtMs = -Infinity;
  #askedAtMs = -Infinity;
  /** The digests for the next query, and its result. */
  #wanted = new Set<string>();
  #next: Promise<ReadonlyMap<string, Entry>> | undefined;
  #waiting = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(apiKeys: ApiKeyStore, keyring: Keyring, uses: ApiKeyUses) {
    this.#apiKeys = apiKeys;
    this.#keyring = keyring;
    this.#uses = uses;
  }

  /**
   * Loads the copy, then renews it in the background. If the first load fails, renewal still runs,
   * and requests ask the database until then.
   */
  async start(): Promise<void> {
    this.#timer = setInterval(() => this.#load().catch(() => {}), REFRESH_INTERVAL_MS).unref();
    await this.#load();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /**
   * The caller of an Authorization header. Synchronous when the API key is in memory.
   * @throws CallerError unauthorized, or InternalError when the database is needed and does not
   * answer
   */
  authenticate(authorization: string | undefined): Caller | Promise<Caller> {
    const known = this.#byHeader.get(authorization ?? '');
    if (known !== undefined && this.#isFresh()) return live(known);
    const apiKey = BEARER.exec(authorization ?? '')?.[1];
    if (apiKey === undefined) throw new CallerError('unauthorized');
    if (!isApiKey(apiKey)) throw new CallerError('unauthorized');
    const digest = this.#keyring.apiKeyDigest(apiKey);
    const found = this.#isFresh() ? this.#byDigest.get(digest) : undefined;
    if (found === undefined) return this.#findInDatabase(digest);
    this.#byHeader.set(`Bearer ${apiKey}`, found);
    return live(found);
  }

  #isFresh(): boolean {
    return performance.now() - this.#loadedAtMs < MAX_AGE_MS;
  }

  /** Asks the database, so that a key issued on another node works at once. */
  async #findInDatabase(digest: string): Promise<Caller> {
    if (this.#waiting >= MAX_WAITING) throw new CallerError('overloaded', '', 1);
    this.#waiting++;
    try {
      this.#wanted.add(digest);
      this.#next ??= this.#ask();
      const found = (await this.#next).get(digest);
      if (found === undefined) throw new CallerError('unauthorized');
      return live(found);
    } finally {
      this.#waiting--;
    }
  }

  /**
   * Queries only the digests asked for. Anybody can invent well-formed API keys, so an unknown key
   * must not cost a load of all keys.
   */
  async #ask(): Promise<ReadonlyMap<string, Entry>> {
    await sleep(Math.max(0, this.#askedAtMs + MISS_INTERVAL_MS - performance.now()));
    const askedAtMs = performance.now();
    const digests = [...this.#wanted];
    this.#askedAtMs = askedAtMs;
    this.#wanted = new Set();
    this.#next = undefined;
    if (!this.#isFresh()) {
      await this.#load();
      return this.#byDigest;
    }
    const deadlineMs = askedAtMs + REQUEST_PATIENCE_MS;
    const found = this.#entriesOf(await this.#apiKeys.findLive(digests, deadlineMs));
    // Keep the copy if it was loaded later: a key may have been revoked meanwhile.
    if (askedAtMs >= this.#loadedAtMs)
      for (const [digest, entry] of found) this.#byDigest.set(digest, entry);
    return found;
  }

  async #load(): Promise<void> {
    const startedAtMs = performance.now();
    const loaded = await this.#apiKeys.listLive(startedAtMs + REQUEST_PATIENCE_MS);
    // Drop the result of a slow load when a later load has already ended.
    if (startedAtMs < this.#loadedAtMs) return;
    this.#byDigest = this.#entriesOf(loaded);
    this.#byHeader = new Map();
    this.#loadedAtMs = startedAtMs;
    this.#uses.keepOnly(new Set(loaded.map(({ api_key_id: apiKeyId }) => apiKeyId)));
  }

  #entriesOf(rows: readonly LiveApiKey[]): Map<string, Entry> {
    return new Map(
      rows.map(({ digest, api_key_id: apiKeyId, client, rank, expires_at: expiresAt }) => [
        digest,
        {
          client,
          api_key_id: apiKeyId,
          expiresAtMs: expiresAt?.getTime() ?? Infinity,
          use: this.#uses.of(apiKeyId, client.client_id, rank),
        },
      ]),
    );
  }
}

function live(entry: Entry): Caller {
  if (entry.expiresAtMs <= Date.now()) throw new CallerError('unauthorized');
  entry.use.requests++;
  return entry;
}
