import type { Pool } from './pool.ts';
import { ENOUGH_ROWS, SLICES } from './server.ts';

/** Number of records with a value, by the key version that seals them. */
export interface VersionCounts {
  readonly byVersion: ReadonlyMap<number, number>;
  /** false: estimated from a sample, which may miss a version with few records. */
  readonly isExact: boolean;
}

const COUNT =
  'select key_version, count(*) as records from standin.records where octet_length(sealed) > 0';

/** Exact up to at least 200,000 records, then an estimate, like countRecords. */
export async function countByVersion(pool: Pool, deadlineMs: number): Promise<VersionCounts> {
  const ask = async (where: string, values: readonly unknown[]) => {
    const { rows } = await pool.query(`${COUNT} ${where} group by key_version`, values, deadlineMs);
    return rows.map((row) => [Number(row.key_version), Number(row.records)] as const);
  };
  for (const { below, slices } of SLICES) {
    const counts = await ask('and token_fingerprint < $1::uuid', [below.padEnd(32, '0')]);
    if (counts.reduce((sum, [, records]) => sum + records, 0) < ENOUGH_ROWS) continue;
    const estimated = counts.map(([version, records]) => [version, records * slices] as const);
    return { byVersion: new Map(estimated), isExact: false };
  }
  return { byVersion: new Map(await ask('', [])), isExact: true };
}
