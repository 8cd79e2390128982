import type { PlainKey } from '../../crypto/keyring.ts';
import type { InternalReason } from '../../errors.ts';

/** How the keys of the vault stand, for whoever seals and opens records. */
export interface KeyNews {
  readonly keys: readonly PlainKey[];
  /**
   * When standin.keyring was last read with every DEK in it unwrapped (a time of monotonicMs): what
   * is older than that is in `keys`.
   */
  readonly asOfMs: number;
  /** Why the last look failed; undefined: it did not. */
  readonly failure: InternalReason | undefined;
}

/** Milliseconds of a clock that is the same in all threads of a process. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** The highest DEK version of the keys: what new records are sealed with. */
export function primaryVersion({ keys }: KeyNews): number {
  return Math.max(...keys.filter(({ purpose }) => purpose === 'dek').map((key) => key.version));
}
