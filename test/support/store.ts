import { randomBytes } from 'node:crypto';
import { openPool } from '../../src/service/pools.ts';
import type { Pool } from '../../src/store/pool.ts';
import type { SealedRecord } from '../../src/types.ts';
import type { Place } from './service.ts';

/** A pool on the database of a place. Starts an embedded database if it is not running. */
export function openTestPool(place: Place, connections = 4): Pool {
  const { DATABASE_URL: databaseUrl, DATA_DIR: dataDir = '' } = place.env;
  return openPool({ databaseUrl, dataDir }, connections);
}

/** Keys for writing records. No record opens with these keys. */
export async function addKeyVersions(pool: Pool, ...versions: number[]): Promise<void> {
  for (const version of versions) {
    await pool.query(
      "insert into standin.keyring (purpose, version, kek_id, wrapped) values ('dek', $1, '', '')",
      [version],
      soon(),
    );
  }
}

/** A deadline that even a busy machine meets. */
export function soon(): number {
  return performance.now() + 120_000;
}

/** A record of random bytes, because the store does not read the content. */
export function randomRecord(parts: Partial<SealedRecord> = {}): SealedRecord {
  const latin1 = () => randomBytes(16).toString('latin1') as never;
  return {
    token_fingerprint: latin1(),
    value_fingerprint: latin1(),
    key_version: 1,
    sealed: randomBytes(40) as never,
    ...parts,
  };
}
