import { Keyring } from '../../crypto/keyring.ts';
import { InternalError, type InternalReason } from '../../errors.ts';
import { type KeyNews, monotonicMs } from './key-news.ts';

/**
 * A process that has not read the keyring for so long reads it again before it seals. `keyring
 * retire` leaves a version alone until the one after it is twice as old (MIN_PRIMARY_AGE_S), so
 * that running processes seal with the new one by then. That only spares refused writes, and this
 * clock may stand still with its machine: the fence is in the statements that write records
 * (src/store/record-writes.ts).
 */
export const SEAL_LEASE_MS = 30_000;

/** At most, within the deadline of the request. */
const SEAL_PATIENCE_MS = 1_000;

/** The keyring of an engine, and its way to newer keys. */
export class EngineKeys {
  readonly keyring: Keyring;
  readonly #demand: () => void;
  #asOfMs: number;
  #failure: InternalReason | undefined;
  #waiting: (() => void)[] = [];

  /** @param demand has the keyring read at once; `take` is called then */
  constructor(news: KeyNews, demand: () => void) {
    this.keyring = new Keyring(news.keys);
    this.#demand = demand;
    this.#asOfMs = news.asOfMs;
  }

  take({ keys, asOfMs, failure }: KeyNews): void {
    if (asOfMs !== this.#asOfMs) this.keyring.renew(keys);
    this.#asOfMs = asOfMs;
    this.#failure = failure;
    for (const look of this.#waiting.splice(0)) look();
  }

  /**
   * Resolves when records may be sealed.
   * @param deadlineMs a performance.now() time, as for all below
   * @throws InternalError when the keys cannot be read
   */
  async readyToSeal(deadlineMs = Infinity): Promise<void> {
    if (monotonicMs() - this.#asOfMs < SEAL_LEASE_MS) return;
    if (!(await this.lookAgain(deadlineMs)))
      throw new InternalError(this.#failure ?? 'key_missing');
  }

  /**
   * Resolves when there is a newer primary than this one, with which records are no longer taken.
   * @throws InternalError when there is none that this process can use
   */
  async readyToSealAfter(keyVersion: number, deadlineMs = Infinity): Promise<void> {
    if (this.keyring.primaryVersion > keyVersion) return;
    await this.lookAgain(deadlineMs);
    if (this.keyring.primaryVersion <= keyVersion)
      throw new InternalError(this.#failure ?? 'key_missing');
  }

  /** Whether the keyring was read, after a second at most. */
  lookAgain(deadlineMs = Infinity): Promise<boolean> {
    return this.#renewed(Math.min(performance.now() + SEAL_PATIENCE_MS, deadlineMs));
  }

  /**
   * Resolves when all of these versions are known, when the keyring turns out not to have them
   * either, or at the deadline: then false, as the keyring may have what is not known.
   */
  async readyToOpen(keyVersions: readonly number[], deadlineMs: number): Promise<boolean> {
    if (keyVersions.every((version) => this.keyring.hasVersion(version))) return true;
    return this.#renewed(deadlineMs);
  }

  /** Whether the keyring was read, all of it, after this call. */
  async #renewed(deadlineMs: number): Promise<boolean> {
    const askedAtMs = monotonicMs();
    this.#demand();
    while (this.#asOfMs < askedAtMs) {
      const leftMs = deadlineMs - performance.now();
      if (leftMs <= 0) return false;
      await this.#news(leftMs);
    }
    return true;
  }

  #news(patienceMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, patienceMs);
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}
