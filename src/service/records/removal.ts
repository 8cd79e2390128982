import { setTimeout as sleep } from 'node:timers/promises';
import { spaceBytes } from '../../crypto/scope.ts';
import type { Pool } from '../../store/pool.ts';
import { RecordStore } from '../../store/records.ts';
import { RemovalStore, type TokenState } from '../../store/removal.ts';
import { COMMAND_PATIENCE_MS, commandDeadline, REQUEST_PATIENCE_MS } from '../../timeouts.ts';
import { DEFAULT_SPACE, type Durable, type Token } from '../../types.ts';
import type { Vault } from '../vault.ts';
import { Throttle } from './record-pass.ts';

export type { TokenState };

/**
 * Removes the values behind tokens, and returns the earlier state of each token, in order. When it
 * resolves, all nodes have forgotten the known tokens.
 * @throws InternalError database_unavailable: some tokens may be forgotten; call it again
 */
export function forgetTokens(
  vault: Vault,
  tokens: readonly Token[],
  space?: string,
): Promise<Durable<TokenState[]>> {
  return eachState('forget', vault, tokens, space);
}

/**
 * Returns the state of each token, in order.
 * @throws as forgetTokens
 */
export function tokenStates(
  vault: Vault,
  tokens: readonly Token[],
  space?: string,
): Promise<Durable<TokenState[]>> {
  return eachState('look', vault, tokens, space);
}

/** Nobody was given the token of an alias: it is unknown, and the alias stays. */
async function eachState(
  act: 'forget' | 'look',
  { keyring, pool }: Vault,
  tokens: readonly Token[],
  space = DEFAULT_SPACE,
): Promise<Durable<TokenState[]>> {
  const bytes = spaceBytes(space);
  const all = tokens.map((token) => keyring.tokenFingerprint(token, bytes));
  const records = new RecordStore(pool, { patienceMs: COMMAND_PATIENCE_MS, onBatch: () => {} });
  const found = await records.find(all);
  const known = all.map((token, i) => {
    const record = found[i];
    return record && 'alias' in keyring.open(record) ? undefined : token;
  });
  return new RemovalStore(pool)[act](known, commandDeadline());
}

/** Rows that a statement locks, for about 10 ms. */
const BATCH_RECORDS = 500;
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
  readonly #removals: RemovalStore;
  readonly #throttle = new Throttle(RECORDS_PER_S);
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;

  constructor(options: ExpiryOptions) {
    this.#options = options;
    this.#removals = new RemovalStore(options.pool);
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
