import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from '../store/pool.ts';
import { RecordStore } from '../store/records.ts';
import { forgetTokens, removeExpired, type TokenState } from '../store/removal.ts';
import { commandDeadline, VAULT_TIMEOUT_MS } from '../timeouts.ts';
import type { SealedRecord, TokenFingerprint } from '../types.ts';
import type { KeyringFollower } from '../vault/keyring-follower.ts';
import type { Vault } from '../vault/vault.ts';
import { Throttle } from './record-scan.ts';
import { knowKeysOf } from './verify.ts';

/** Rows that a statement locks, for about 10 ms. */
const BATCH_RECORDS = 500;

/**
 * Removes the values of records, and returns the earlier state of each. When it resolves, all nodes
 * have forgotten the known ones.
 * @param isDryRun only returns the states
 * @throws InternalError database_unavailable: some records may be forgotten; call it again
 */
export async function forgetRecords(
  vault: Vault,
  follower: KeyringFollower,
  fingerprints: Iterable<TokenFingerprint>,
  isDryRun: boolean,
): Promise<ReadonlyMap<TokenFingerprint, TokenState>> {
  const states = new Map<TokenFingerprint, TokenState>();
  const all = [...new Set(fingerprints)];
  for (let from = 0; from < all.length; from += BATCH_RECORDS) {
    const batch = all.slice(from, from + BATCH_RECORDS);
    const tokens = await tokensAmong(vault, follower, batch);
    const found = await forgetTokens(vault.pool, tokens, commandDeadline(), isDryRun);
    for (const [i, one] of batch.entries()) states.set(one, found[i]!);
  }
  return states;
}

/** undefined: a token that nobody was given. */
async function tokensAmong(
  vault: Vault,
  follower: KeyringFollower,
  fingerprints: readonly TokenFingerprint[],
): Promise<(TokenFingerprint | undefined)[]> {
  const found = await new RecordStore(vault.pool).find(fingerprints);
  const records = found.filter((one): one is SealedRecord => !!one);
  await knowKeysOf(vault, follower, records);
  // An alias stays. Where no row is, an import may put one before the next statement.
  const isNobodys = (one: SealedRecord | null | undefined) =>
    one === undefined || (one !== null && 'alias' in vault.keyring.open(one));
  return fingerprints.map((one, i) => (isNobodys(found[i]) ? undefined : one));
}

/** A removal takes 14 us of the database's CPU, so this rate takes a fourteenth of a core. */
const RECORDS_PER_S = 5_000;
/** Removal may be late, because an expired token is unknown at once. */
const IDLE_PAUSE_MS = 5_000;
const FAILURE_PAUSE_MS = 30_000;

interface ExpiryOptions {
  readonly pool: Pool;
  /**
   * Called when removal fails: the database is away, or this user may not update records. The next
   * batch tries again.
   */
  readonly onFailure: (error: unknown) => void;
  readonly idlePauseMs?: number;
}

/**
 * Removes the values of expired records in the background. Several nodes may do so at once; the
 * first removes a value, and the others find nothing.
 */
export class Expiry {
  /** Number of records whose values this process has removed. */
  removed = 0;
  readonly #options: ExpiryOptions;
  readonly #throttle = new Throttle(RECORDS_PER_S);
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;

  constructor(options: ExpiryOptions) {
    this.#options = options;
    this.#ended = this.#run();
  }

  /** Resolves when the current statement has ended. */
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

  /** Returns the pause before the next batch. */
  async #removeBatch(): Promise<number> {
    const { pool, onFailure, idlePauseMs = IDLE_PAUSE_MS } = this.#options;
    try {
      const deadlineMs = performance.now() + VAULT_TIMEOUT_MS;
      const { found, removed } = await removeExpired(pool, BATCH_RECORDS, deadlineMs);
      this.removed += removed;
      await this.#throttle.pass(found, this.#stop.signal);
      return found < BATCH_RECORDS ? idlePauseMs : 0;
    } catch (error) {
      onFailure(error);
      return FAILURE_PAUSE_MS;
    }
  }
}
