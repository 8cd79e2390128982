import type { InsertOutcome, ValueFingerprint } from '../types.ts';

/** What is there of a token. */
export interface Holder {
  /** The value that it stands for, also when that was removed. */
  readonly value_fingerprint: ValueFingerprint;
  /** How long it still is, by the clock of the database: null for ever, 0 when it was removed. */
  readonly left_s: number | null;
}

/**
 * What becomes of a record for this value of which that is there already; undefined: it has to be
 * written.
 * @param time_to_live_s null: for ever
 */
export function outcomeOf(
  holder: Holder | undefined,
  value_fingerprint: ValueFingerprint,
  time_to_live_s: number | null,
): InsertOutcome | undefined {
  if (holder === undefined) return undefined;
  if (holder.value_fingerprint !== value_fingerprint) return 'collision';
  const { left_s } = holder;
  const is_enough = left_s === null || (time_to_live_s !== null && left_s >= time_to_live_s);
  return is_enough ? 'stored' : undefined;
}
