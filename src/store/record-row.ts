import type { Sealed, SealedRecord, TokenFingerprint, ValueFingerprint } from '../types.ts';

/** The columns of a row as one bytea: the driver parses one text instead of four. */
export const FINGERPRINTS = 'uuid_send(token_fingerprint) || uuid_send(value_fingerprint)';
export const UNSEALED = `${FINGERPRINTS} || int2send(key_version)`;
/**
 * `sealed` of a row of `there`. The column can be null if somebody dropped `not null`: return a
 * byte that does not open.
 */
export const SEALED = "coalesce(there.sealed, decode('00', 'hex'))";
/** Offsets of the columns in that bytea. */
const VALUE_FINGERPRINT = 16;
const KEY_VERSION = 32;
const SEALED_START = 34;

/** @param row begins with FINGERPRINTS, as in all functions below */
export function tokenFingerprintOf(row: Buffer): TokenFingerprint {
  return row.toString('latin1', 0, VALUE_FINGERPRINT) as TokenFingerprint;
}

export function valueFingerprintOf(row: Buffer): ValueFingerprint {
  return row.toString('latin1', VALUE_FINGERPRINT, KEY_VERSION) as ValueFingerprint;
}

/** @param row begins with UNSEALED */
export function keyVersionOf(row: Buffer): number {
  return row.readInt16BE(KEY_VERSION);
}

/** Whether the record has its value: `sealed` is not empty. */
export function hasValue(row: Buffer): boolean {
  return row.length > SEALED_START;
}

/** @param row UNSEALED and `sealed` */
export function recordOf(row: Buffer): SealedRecord {
  return {
    token_fingerprint: tokenFingerprintOf(row),
    value_fingerprint: valueFingerprintOf(row),
    key_version: keyVersionOf(row),
    sealed: row.subarray(SEALED_START) as Sealed,
  };
}
