import { randomHex } from '../crypto/api-key.ts';
import { errorCode } from '../errors.ts';
import type { Pool } from '../store/pool.ts';
import { tryToGrow } from '../store/server.ts';

const DISK_FULL = '53100';
const PROBE_INTERVAL_MS = 1_000;
const PROBE_PATIENCE_MS = 4_000;
/** More than one page of the table. */
const PROBE_BYTES = 65_536;

export interface WriteSpaceOptions {
  readonly pool: Pool;
  readonly keyVersion: () => number;
  readonly onChange: (hasSpace: boolean) => void;
}

/**
 * Tells whether the disk of the database has space. On a full disk, some records still fit into
 * existing pages, so a successful write proves nothing. A probe that needs new pages does.
 */
export class WriteSpace {
  readonly #options: WriteSpaceOptions;
  #hasSpace = true;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: WriteSpaceOptions) {
    this.#options = options;
  }

  get hasSpace(): boolean {
    return this.#hasSpace;
  }

  /** Checks the error of a failed write. */
  failed(error: unknown): void {
    if (!this.#hasSpace || errorCode((error as Error).cause) !== DISK_FULL) return;
    this.#hasSpace = false;
    this.#options.onChange(false);
    this.#probeSoon();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #probeSoon(): void {
    this.#timer = setTimeout(() => void this.#probe(), PROBE_INTERVAL_MS);
    this.#timer.unref();
  }

  async #probe(): Promise<void> {
    const { pool, keyVersion, onChange } = this.#options;
    const bytes = Buffer.from(randomHex(PROBE_BYTES), 'hex');
    try {
      await tryToGrow(pool, bytes, keyVersion(), performance.now() + PROBE_PATIENCE_MS);
      this.#hasSpace = true;
      onChange(true);
    } catch {
      this.#probeSoon();
    }
  }
}
