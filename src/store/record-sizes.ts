import type { TokenFingerprint } from '../types.ts';
import { bytesOfBytea, uuidArray } from './bytea-array.ts';
import type { Pool } from './pool.ts';
import { FINGERPRINTS, tokenFingerprintOf } from './record-row.ts';
import { ping } from './server.ts';

/** PostgreSQL knows the length of a large value without reading the value. */
const SIZES = `select ${FINGERPRINTS} as row, octet_length(sealed) as bytes
  from standin.records
  where token_fingerprint = any($1::uuid[]) and (expires_at <= now()) is not true`;

/** How many bytes are sealed in each record; undefined: it is not there, or has no value. */
export async function findSizes(
  pool: Pool,
  fingerprints: readonly TokenFingerprint[],
  deadline_ms: number,
): Promise<(number | undefined)[]> {
  const { rows } = await pool.query(SIZES, [uuidArray(fingerprints)], deadline_ms);
  const found = new Map<TokenFingerprint, number>();
  for (const { row, bytes } of rows) {
    if (Number(bytes) > 0) found.set(tokenFingerprintOf(bytesOfBytea(row!)), Number(bytes));
  }
  const sizes = fingerprints.map((fingerprint) => found.get(fingerprint));
  // A pooler may have changed servers under this connection, and a standby may not know it yet.
  if (sizes.includes(undefined)) await ping(pool, deadline_ms);
  return sizes;
}
