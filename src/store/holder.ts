import type { SealedRecord, ValueFingerprint } from '../types.ts';

/** What is there of a token. */
export interface Holder {
  /** Its `sealed` is empty when the value was removed. */
  readonly record: SealedRecord;
  /** How long it still is, by the clock of the database: null for ever, 0 when it was removed. */
  readonly left_s: number | null;
}

/**
 * What becomes of a record for this value of which that is there already: the record that is there
 * does for it, or stands for another value; undefined: it has to be written.
 * @param time_to_live_s null: for ever
 */
export function outcomeOf(
  holder: Holder | undefined,
  value_fingerprint: ValueFingerprint,
  time_to_live_s: number | null,
): SealedRecord | 'collision' | undefined {
  if (holder === undefined) return undefined;
  const { record, left_s } = holder;
  if (record.value_fingerprint !== value_fingerprint) return 'collision';
  const is_enough = left_s === null || (time_to_live_s !== null && left_s >= time_to_live_s);
  return is_enough ? record : undefined;
}
