import type { Pool } from './pool.ts';
import { ENOUGH_ROWS, SLICES } from './server.ts';

/** Records with a value, by the key version that they are sealed with. */
export interface VersionCounts {
  readonly byVersion: ReadonlyMap<number, number>;
  /** false: estimated from a part, in which a version of few records may be missing. */
  readonly isExact: boolean;
}

const COUNT =
  'select key_version, count(*) as records from standin.records where octet_length(sealed) > 0';

/** Exact up to 200,000 at least, then an estimate, as countRecords is. */
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
