import type { License } from '../access/license.ts';
import { randomHex } from '../crypto/api-key.ts';
import { errorCode, InternalError } from '../errors.ts';
import type { VaultOptions } from '../options.ts';
import { Refresher } from '../refresher.ts';
import type { Pool } from '../store/pool.ts';
import { serverFacts, tryToGrow } from '../store/server.ts';
import { monotonicMs } from '../timeouts.ts';
import type { KeyringFollower } from '../vault/keyring-follower.ts';
import { SEAL_LEASE_MS } from '../vault/leased-keyring.ts';

/** The settings of the server are read this often, because they can change while it runs. */
const REFRESH_INTERVAL_MS = 2_000;
const REFRESH_TIMEOUT_MS = 4_000;
const DISK_FULL = '53100';
const PROBE_INTERVAL_MS = 1_000;
const PROBE_TIMEOUT_MS = 4_000;
/** More than one page of the table. */
const PROBE_BYTES = 65_536;

interface WriteGuardsOptions {
  readonly vault: VaultOptions;
  readonly pool: Pool;
  readonly keys: KeyringFollower;
  readonly license: License;
  /** Called when the disk of the database is full, and when it has space again. */
  readonly onSpace: (hasSpace: boolean) => void;
}

/**
 * Checks what a process needs to store values: a license, a server that keeps what it acknowledges,
 * space on the disk of the database, and a current key.
 */
export class WriteGuards {
  readonly #options: WriteGuardsOptions;
  #unsafeSettings: readonly string[] = [];
  #settings: Refresher | undefined;
  #hasSpace = true;
  #probing: NodeJS.Timeout | undefined;

  constructor(options: WriteGuardsOptions) {
    this.#options = options;
  }

  /** @param onUnsafe called when the unsafe settings change, with each as `name=value` */
  start(onUnsafe: (unsafeSettings: readonly string[]) => void): void {
    if (!this.#promisesDurability) return;
    this.#settings = new Refresher(() => this.#readSettings(onUnsafe), {
      intervalMs: REFRESH_INTERVAL_MS,
      nowMs: monotonicMs,
    });
    void this.#settings.start();
  }

  stop(): void {
    this.#settings?.stop();
    clearTimeout(this.#probing);
  }

  /** undefined: the embedded database promises nothing, so it is not checked. */
  get isServerSafe(): (() => boolean) | undefined {
    return this.#promisesDurability ? () => this.#unsafeSettings.length === 0 : undefined;
  }

  /** @throws InternalError */
  check(): void {
    const { license, vault } = this.#options;
    license.check();
    if (this.#unsafeSettings.length > 0 && !vault.allowUnsafePostgres)
      throw new InternalError('database_unsafe');
  }

  /**
   * Notices a full disk. Some records still fit into existing pages, so a later write that succeeds
   * proves nothing. A probe that needs new pages does.
   */
  failed(error: unknown): void {
    if (!this.#hasSpace || errorCode((error as Error).cause) !== DISK_FULL) return;
    this.#setSpace(false);
    this.#probeSoon();
  }

  /** Whether the node has a current key to seal with. */
  canSeal(): boolean {
    return monotonicMs() - this.#options.keys.latest.asOfMs < SEAL_LEASE_MS;
  }

  /** Whether the disk of the database has space for records. */
  hasSpace(): boolean {
    return this.#hasSpace;
  }

  get #promisesDurability(): boolean {
    return this.#options.vault.databaseUrl !== undefined;
  }

  /** If the database does not answer, the last result stays: requests report that it is away. */
  async #readSettings(onUnsafe: (unsafeSettings: readonly string[]) => void): Promise<() => void> {
    const { pool } = this.#options;
    const facts = await serverFacts(pool, performance.now() + REFRESH_TIMEOUT_MS).catch(() => null);
    return () => {
      if (facts === null) return;
      const { unsafeSettings } = facts;
      // A session keeps the settings of its role from its start, so the next read needs a new one.
      if (unsafeSettings.length > 0) pool.reconnect();
      if (unsafeSettings.join() === this.#unsafeSettings.join()) return;
      this.#unsafeSettings = unsafeSettings;
      onUnsafe(unsafeSettings);
    };
  }

  #setSpace(hasSpace: boolean): void {
    this.#hasSpace = hasSpace;
    this.#options.onSpace(hasSpace);
  }

  #probeSoon(): void {
    this.#probing = setTimeout(() => void this.#probe(), PROBE_INTERVAL_MS).unref();
  }

  async #probe(): Promise<void> {
    const { pool, keys } = this.#options;
    const bytes = Buffer.from(randomHex(PROBE_BYTES), 'hex');
    const deadlineMs = performance.now() + PROBE_TIMEOUT_MS;
    try {
      await tryToGrow(pool, bytes, keys.primaryVersion, deadlineMs);
      this.#setSpace(true);
    } catch {
      this.#probeSoon();
    }
  }
}
