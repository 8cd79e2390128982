import type { PlainKey } from '../../crypto/keyring.ts';
import type { InternalReason } from '../../errors.ts';

/** The state of the vault's keys, for all code that seals and opens records. */
export interface KeyNews {
  readonly keys: readonly PlainKey[];
  /**
   * When standin.keyring was last read and every DEK unwrapped (a time of monotonicMs). `keys` has
   * every key that is older.
   */
  readonly asOfMs: number;
  /** Why the last read failed; undefined: it succeeded. */
  readonly failure: InternalReason | undefined;
}

/** The highest DEK version, which seals new records. */
export function primaryVersion({ keys }: KeyNews): number {
  return Math.max(...keys.filter(({ purpose }) => purpose === 'dek').map((key) => key.version));
}
