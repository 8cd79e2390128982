import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '../client-settings.ts';
import { isApiKey } from '../crypto/api-key.ts';
import type { Keyring } from '../crypto/keyring.ts';
import { CallerError, InternalError, overloaded } from '../errors.ts';
import { Refresher } from '../refresher.ts';
import type { ApiKeyStore, LiveApiKey, SubjectClient } from '../store/api-keys.ts';
import { leaseMs, VAULT_TIMEOUT_MS } from '../timeouts.ts';
import type { ApiKeyUse, ApiKeyUses } from './api-key-uses.ts';
import { isJwt, type JwtVerifier } from './jwt-verifier.ts';

/** The client behind a request, and its API key or the subject of its JWT. */
export interface Caller {
  readonly client: Client;
  readonly api_key_id: string | undefined;
  readonly subject: string | undefined;
  readonly use: ApiKeyUse;
  /** Unix time; Infinity: never, or when the JWT says. */
  readonly expiresAtMs: number;
}

/** A revocation takes effect after this time, plus one query. */
const REFRESH_INTERVAL_MS = 2_000;
/** A copy older than this is not used: the request waits for the database. */
const MAX_AGE_MS = 4_000;
/** Unknown API keys share one query to the database, at most this often. */
const MISS_INTERVAL_MS = 250;
/** Requests that wait for the database, or for a JWT to be verified. */
const MAX_WAITING = 1_000;
export const BEARER = /^bearer +([^\s]+)$/i;
const NO_API_KEY = 'not an API key, or mistyped: an API key has 38 characters';

/**
 * Identifies callers by API key, or by JWT, from a copy of all live keys and subjects in memory. So
 * most requests need no query.
 */
export class Authenticator {
  readonly #apiKeys: ApiKeyStore;
  readonly #keyring: Keyring;
  readonly #uses: ApiKeyUses;
  readonly #jwt: JwtVerifier | undefined;
  #bySubject = new Map<string, Caller>();
  #byDigest = new Map<string, Caller>();
  /**
   * Entries by Authorization header since the last refresh, which saves a digest for each request.
   * The map is bounded: it holds live API keys only, each in one spelling.
   */
  #byHeader = new Map<string, Caller>();
  #loadedAtMs = -Infinity;
  /** Why the last load failed. */
  #problem: unknown;
  #askedAtMs = -Infinity;
  /** The digests for the next query, and its result. */
  #wanted = new Set<string>();
  #next: Promise<ReadonlyMap<string, Caller>> | undefined;
  #waitingCount = 0;
  readonly #refresher = new Refresher((startedAtMs) => this.#load(startedAtMs), {
    intervalMs: REFRESH_INTERVAL_MS,
    nowMs: leaseMs,
  });

  /** @param jwt undefined: callers need an API key */
  constructor(apiKeys: ApiKeyStore, keyring: Keyring, uses: ApiKeyUses, jwt?: JwtVerifier) {
    this.#apiKeys = apiKeys;
    this.#keyring = keyring;
    this.#uses = uses;
    this.#jwt = jwt;
  }

  /**
   * Loads the copy, then renews it in the background. If the first load fails, renewal still runs,
   * and requests ask the database until then.
   * @throws InternalError for a first load that fails
   */
  async start(): Promise<void> {
    this.#jwt?.keys.start();
    await this.#refresher.start();
    this.#requireFresh();
  }

  stop(): void {
    this.#refresher.stop();
    this.#jwt?.keys.stop();
  }

  /**
   * The caller of an Authorization header. Synchronous when the API key or JWT is in memory.
   * @throws CallerError unauthorized or overloaded, or InternalError when the database or the
   * issuer is needed and does not answer
   */
  authenticate(authorization: string | undefined): Caller | Promise<Caller> {
    const found = this.find(authorization);
    return found instanceof Promise ? found.then(counted) : counted(found);
  }

  /** As `authenticate`, for a request that was counted before. */
  find(authorization: string | undefined): Caller | Promise<Caller> {
    const known = this.#byHeader.get(authorization ?? '');
    if (known !== undefined && this.#isFresh()) return live(known);
    const apiKey = BEARER.exec(authorization ?? '')?.[1];
    if (apiKey === undefined) throw new CallerError('unauthorized', noBearer(authorization));
    if (this.#jwt !== undefined && isJwt(apiKey)) return this.#ofJwt(this.#jwt, apiKey);
    if (!isApiKey(apiKey)) throw new CallerError('unauthorized', NO_API_KEY);
    const digest = this.#keyring.apiKeyDigest(apiKey);
    const found = this.#isFresh() ? this.#byDigest.get(digest) : undefined;
    if (found === undefined)
      return this.#waiting(async () => {
        // Asks the database, so that a key issued on another node works at once.
        this.#wanted.add(digest);
        return live((await this.#asked()).get(digest));
      });
    this.#byHeader.set(`Bearer ${apiKey}`, found);
    return live(found);
  }

  #isFresh(): boolean {
    return leaseMs() - this.#loadedAtMs < MAX_AGE_MS;
  }

  #requireFresh(): void {
    if (!this.#isFresh()) throw this.#problem ?? new InternalError('database_unavailable');
  }

  #ofJwt(jwt: JwtVerifier, token: string): Caller | Promise<Caller> {
    const subject = jwt.known(token);
    if (subject !== undefined && this.#isFresh()) return live(this.#bySubject.get(subject));
    return this.#waiting(async () => {
      if (!this.#isFresh()) await this.#asked();
      const verified = await jwt.verify(token, (subject) => this.#bySubject.has(subject));
      return live(this.#bySubject.get(verified));
    });
  }

  async #waiting(work: () => Promise<Caller>): Promise<Caller> {
    if (this.#waitingCount >= MAX_WAITING) throw overloaded();
    this.#waitingCount++;
    return work().finally(() => this.#waitingCount--);
  }

  #asked(): Promise<ReadonlyMap<string, Caller>> {
    this.#next ??= this.#ask();
    return this.#next;
  }

  /**
   * Queries only the digests asked for. Anybody can invent well-formed API keys, so an unknown key
   * must not cost a load of all keys.
   */
  async #ask(): Promise<ReadonlyMap<string, Caller>> {
    await sleep(Math.max(0, this.#askedAtMs + MISS_INTERVAL_MS - leaseMs()));
    const askedAtMs = leaseMs();
    const digests = [...this.#wanted];
    this.#askedAtMs = askedAtMs;
    this.#wanted = new Set();
    this.#next = undefined;
    if (!this.#isFresh()) {
      await this.#refresher.refresh();
      this.#requireFresh();
      return this.#byDigest;
    }
    const deadlineMs = performance.now() + VAULT_TIMEOUT_MS;
    const found = this.#entriesOf(await this.#apiKeys.findLive(digests, deadlineMs));
    // Keep the copy if it was loaded later: a key may have been revoked meanwhile.
    if (askedAtMs >= this.#loadedAtMs)
      for (const [digest, entry] of found) this.#byDigest.set(digest, entry);
    return found;
  }

  async #load(startedAtMs: number): Promise<() => void> {
    const deadlineMs = performance.now() + VAULT_TIMEOUT_MS;
    try {
      const loaded = await this.#apiKeys.listLive(deadlineMs);
      const subjects = this.#jwt && (await this.#apiKeys.listSubjects(deadlineMs));
      return () => {
        this.#take(loaded, subjects ?? []);
        this.#loadedAtMs = startedAtMs;
      };
    } catch (problem) {
      return () => {
        this.#problem = problem;
      };
    }
  }

  #take(loaded: readonly LiveApiKey[], subjects: readonly SubjectClient[]): void {
    this.#byDigest = this.#entriesOf(loaded);
    this.#byHeader = new Map();
    this.#bySubject = new Map(subjects.map((one) => [one.client.subject!, this.#entryOf(one)]));
    const clientIds = subjects.map(({ client }) => client.client_id);
    this.#uses.keepOnly(new Set([...loaded.map((one) => one.api_key_id), ...clientIds]));
  }

  #entriesOf(rows: readonly LiveApiKey[]): Map<string, Caller> {
    return new Map(rows.map((row) => [row.digest, this.#entryOf(row)]));
  }

  /** Without an API key, the use is counted under the id of the client. */
  #entryOf(row: SubjectClient & Partial<LiveApiKey>): Caller {
    const { client, rank, api_key_id: apiKeyId, expires_at: expiresAt } = row;
    const { client_id: clientId } = client;
    return {
      client,
      api_key_id: apiKeyId,
      subject: apiKeyId === undefined ? client.subject! : undefined,
      expiresAtMs: expiresAt?.getTime() ?? Infinity,
      use: this.#uses.of(apiKeyId ?? clientId, clientId, rank),
    };
  }
}

/** The most frequent mistakes of a first request. They say nothing about the keys of the vault. */
function noBearer(authorization: string | undefined): string {
  if (authorization === undefined) return 'no Authorization header';
  const isBearer = /^bearer\b/i.test(authorization);
  return isBearer ? 'no API key after Bearer, or blanks in it' : 'no Bearer before the API key';
}

function live(entry: Caller | undefined): Caller {
  if (entry === undefined || entry.expiresAtMs <= Date.now()) throw new CallerError('unauthorized');
  return entry;
}

function counted(entry: Caller): Caller {
  entry.use.counts.requests++;
  entry.use.isUnwritten = true;
  return entry;
}
