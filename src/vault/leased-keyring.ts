import { Keyring } from '../crypto/keyring.ts';
import { InternalError } from '../errors.ts';
import { monotonicMs } from '../timeouts.ts';
import type { KeySnapshot } from './keyring-follower.ts';

/**
 * A process that has not read the keyring for this long reads it again before it seals.
 * `keyring retire` waits until the primary is twice this old (MIN_PRIMARY_AGE_S), so that running
 * processes seal with the primary by then.
 * The lease only spares refused writes: this clock may stop with its machine. The fence is in the
 * statements that write records (src/store/record-sql.ts).
 */
export const SEAL_LEASE_MS = 30_000;

/** The longest wait for newer keys before a seal, within the deadline of the request. */
const SEAL_TIMEOUT_MS = 1_000;

/** The keyring of a vault thread, which asks for newer keys when it needs them. */
export class LeasedKeyring {
  readonly keyring: Keyring;
  readonly #refreshNow: () => void;
  #snapshot: KeySnapshot;
  #waiting: (() => void)[] = [];

  /** @param demand requests a new read of the keyring; its result comes through `take` */
  constructor(snapshot: KeySnapshot, demand: () => void) {
    this.keyring = new Keyring(snapshot.keys);
    this.#refreshNow = demand;
    this.#snapshot = snapshot;
  }

  take(snapshot: KeySnapshot): void {
    if (snapshot.asOfMs !== this.#snapshot.asOfMs) this.keyring.renew(snapshot.keys);
    this.#snapshot = snapshot;
    for (const look of this.#waiting.splice(0)) look();
  }

  /** Whether the keys are new enough to seal with. */
  isLeased(): boolean {
    const { isDurable, asOfMs } = this.#snapshot;
    return isDurable && monotonicMs() - asOfMs < SEAL_LEASE_MS;
  }

  /**
   * Resolves when records may be sealed.
   * @param deadlineMs a performance.now() time, as in all methods below
   * @throws InternalError when the keys cannot be read
   */
  async readyToSeal(deadlineMs = Infinity): Promise<void> {
    if (this.isLeased()) return;
    if (!(await this.refresh(deadlineMs)) || !this.#snapshot.isDurable) throw this.#failure();
  }

  /**
   * Resolves when the keyring has another primary than this one, which takes no more records.
   * @param keyId its `id`
   * @throws InternalError when this process can use no other primary
   */
  async readyToSealAfter(keyId: string, deadlineMs = Infinity): Promise<void> {
    if (this.keyring.primaryId !== keyId) return;
    await this.refresh(deadlineMs);
    if (this.keyring.primaryId === keyId) throw this.#failure();
  }

  #failure(): InternalError {
    return new InternalError(this.#snapshot.failure ?? 'key_missing');
  }

  /** Whether the keyring could be read within a second. */
  refresh(deadlineMs = Infinity): Promise<boolean> {
    return this.#renewed(Math.min(performance.now() + SEAL_TIMEOUT_MS, deadlineMs));
  }

  /**
   * Resolves to true when all these versions are known, or when a new read shows that the keyring
   * lacks them. Resolves to false at the deadline, when the keyring may still have them.
   */
  async readyToOpen(keyVersions: readonly number[], deadlineMs: number): Promise<boolean> {
    if (keyVersions.every((version) => this.keyring.hasVersion(version))) return true;
    return this.#renewed(deadlineMs);
  }

  /** Whether the whole keyring was read after this call. */
  async #renewed(deadlineMs: number): Promise<boolean> {
    const askedAtMs = monotonicMs();
    this.#refreshNow();
    while (this.#snapshot.asOfMs < askedAtMs) {
      const leftMs = deadlineMs - performance.now();
      if (leftMs <= 0) return false;
      await this.#nextSnapshot(leftMs);
    }
    return true;
  }

  #nextSnapshot(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}
