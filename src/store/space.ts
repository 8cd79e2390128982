import type { Pool } from './pool.ts';

const PROBE = `insert into standin.records (token_fingerprint, value_fingerprint, key_version, sealed)
  values ($1::uuid, $1::uuid, $2::smallint, $3::bytea)`;

/** Takes back what was written. */
class Done extends Error {}

/**
 * Resolves when the table of records can grow by so many bytes. They are never seen: the
 * transaction is rolled back.
 * @param bytes do not compress, so that no page that is there has room for them
 * @throws InternalError when it cannot
 */
export async function tryToGrow(
  pool: Pool,
  bytes: Buffer,
  key_version: number,
  deadline_ms: number,
): Promise<void> {
  const fingerprint = bytes.toString('hex', 0, 16);
  const probing = pool.transaction(deadline_ms, async (query) => {
    await query(PROBE, [fingerprint, key_version, bytes]);
    throw new Done();
  });
  await probing.catch((error) => {
    if (!(error instanceof Done)) throw error;
  });
}
