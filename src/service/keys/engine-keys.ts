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
  #as_of_ms: number;
  #failure: InternalReason | undefined;
  #waiting: (() => void)[] = [];

  /** @param demand has the keyring read at once; `take` is called then */
  constructor(news: KeyNews, demand: () => void) {
    this.keyring = new Keyring(news.keys);
    this.#demand = demand;
    this.#as_of_ms = news.as_of_ms;
  }

  take({ keys, as_of_ms, failure }: KeyNews): void {
    if (as_of_ms !== this.#as_of_ms) this.keyring.renew(keys);
    this.#as_of_ms = as_of_ms;
    this.#failure = failure;
    for (const look of this.#waiting.splice(0)) look();
  }

  /**
   * Resolves when records may be sealed.
   * @param deadline_ms a performance.now() time, as for all below
   * @throws InternalError when the keys cannot be read
   */
  async readyToSeal(deadline_ms = Infinity): Promise<void> {
    if (monotonicMs() - this.#as_of_ms < SEAL_LEASE_MS) return;
    if (!(await this.lookAgain(deadline_ms)))
      throw new InternalError(this.#failure ?? 'key_missing');
  }

  /**
   * Resolves when there is a newer primary than this one, with which records are no longer taken.
   * @throws InternalError when there is none that this process can use
   */
  async readyToSealAfter(key_version: number, deadline_ms = Infinity): Promise<void> {
    if (this.keyring.primary_version > key_version) return;
    await this.lookAgain(deadline_ms);
    if (this.keyring.primary_version <= key_version)
      throw new InternalError(this.#failure ?? 'key_missing');
  }

  /** Whether the keyring was read, after a second at most. */
  lookAgain(deadline_ms = Infinity): Promise<boolean> {
    return this.#renewed(Math.min(performance.now() + SEAL_PATIENCE_MS, deadline_ms));
  }

  /**
   * Resolves when all of these versions are known, when the keyring turns out not to have them
   * either, or at the deadline: then false, as the keyring may have what is not known.
   */
  async readyToOpen(key_versions: readonly number[], deadline_ms: number): Promise<boolean> {
    if (key_versions.every((version) => this.keyring.hasVersion(version))) return true;
    return this.#renewed(deadline_ms);
  }

  /** Whether the keyring was read, all of it, after this call. */
  async #renewed(deadline_ms: number): Promise<boolean> {
    const asked_at_ms = monotonicMs();
    this.#demand();
    while (this.#as_of_ms < asked_at_ms) {
      const left_ms = deadline_ms - performance.now();
      if (left_ms <= 0) return false;
      await this.#news(left_ms);
    }
    return true;
  }

  #news(patience_ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, patience_ms);
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}
