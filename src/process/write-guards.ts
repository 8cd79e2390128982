import type { Log } from '../log.ts';
import type { VaultOptions } from '../options.ts';
import type { Work } from '../service/health.ts';
import { SEAL_LEASE_MS } from '../service/keys/engine-keys.ts';
import { primaryVersion } from '../service/keys/key-news.ts';
import type { KeyRenewal } from '../service/keys/key-renewal.ts';
import type { License } from '../service/license.ts';
import { ServerSafety } from '../service/server-safety.ts';
import type { Writes } from '../service/threads/vault-client.ts';
import type { Vault } from '../service/vault.ts';
import { WriteSpace } from '../service/write-space.ts';
import { monotonicMs } from '../timeouts.ts';

export interface WriteGuardsOptions {
  readonly options: VaultOptions;
  readonly vault: Vault;
  readonly keys: KeyRenewal;
  readonly license: License;
  readonly log: Log;
}

/**
 * Checks what a process needs to store values: a license, a safe server, space on the disk of the
 * database, and a current key.
 */
export class WriteGuards implements Writes, Work {
  readonly #keys: KeyRenewal;
  readonly #license: License;
  /** undefined: the embedded database promises no durability, so nothing is checked. */
  readonly #safety: ServerSafety | undefined;
  readonly #space: WriteSpace;
  #onSafe = () => {};

  constructor({ options, vault, keys, license, log }: WriteGuardsOptions) {
    this.#keys = keys;
    this.#license = license;
    this.#space = new WriteSpace({
      pool: vault.vital.keys,
      keyVersion: () => primaryVersion(keys.latest),
      onChange: (hasSpace) => {
        if (hasSpace) log.info({}, 'the disk of the database has space again');
        else log.error({}, 'the disk of the database is full: /health answers 503');
      },
    });
    if (options.databaseUrl === undefined) return;
    this.#safety = new ServerSafety({
      pool: vault.vital.keys,
      isUnsafeAllowed: options.allowUnsafePostgres,
      onChange: (settings) => {
        if (settings.length > 0) return log.error({ settings }, 'PostgreSQL can lose tokens');
        log.info({}, 'PostgreSQL keeps tokens again');
        this.#onSafe();
      },
    });
  }

  /** @param onSafe called when an unsafe server is safe again */
  start(onSafe: () => void): void {
    this.#onSafe = onSafe;
    this.#safety?.start();
  }

  stop(): void {
    this.#safety?.stop();
    this.#space.stop();
  }

  /** undefined: not checked. */
  get isServerSafe(): (() => boolean) | undefined {
    const safety = this.#safety;
    return safety && (() => safety.isSafe);
  }

  check(): void {
    this.#license.check();
    this.#safety?.check();
  }

  failed(error: unknown): void {
    this.#space.failed(error);
  }

  canSeal(): boolean {
    return monotonicMs() - this.#keys.latest.asOfMs < SEAL_LEASE_MS;
  }

  hasSpace(): boolean {
    return this.#space.hasSpace;
  }
}
