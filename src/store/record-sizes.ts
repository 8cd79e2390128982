import type { TokenFingerprint } from '../types.ts';
import { bytesOfBytea, uuidArray } from './bytea-array.ts';
import type { Pool } from './pool.ts';
import { FINGERPRINTS, tokenFingerprintOf } from './record-row.ts';

/** PostgreSQL returns the length of a large value without reading the value. */
const SIZES = `select ${FINGERPRINTS} as row,
    case when expires_at <= now() then 0 else octet_length(sealed) end as bytes
  from standin.records where token_fingerprint = any($1::uuid[])`;

/** The sealed bytes of each record. null: removed or expired; undefined: no such record. */
export async function findSizes(
  pool: Pool,
  fingerprints: readonly TokenFingerprint[],
  deadlineMs: number,
): Promise<(number | null | undefined)[]> {
  const { rows } = await pool.query(SIZES, [uuidArray(fingerprints)], deadlineMs);
  const found = new Map<TokenFingerprint, number | null>();
  for (const { row, bytes } of rows) {
    found.set(tokenFingerprintOf(bytesOfBytea(row!)), Number(bytes) || null);
  }
  const sizes = fingerprints.map((fingerprint) => found.get(fingerprint));
  // A pooler may have switched this connection to a standby, which may not have the record yet.
  if (sizes.includes(undefined)) await pool.ping(deadlineMs);
  return sizes;
}
