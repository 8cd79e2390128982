import type { Pool } from './pool.ts';
import { hasCitus } from './schema.ts';

/**
 * Samples of the vault, smallest first: the rows below a fingerprint, and how many such samples the
 * vault has.
 */
const SAMPLES = [
  { below: '0001', samples: 65_536 },
  { below: '0010', samples: 4_096 },
  { below: '01', samples: 256 },
];
/** Enough for an estimate within a few percent. */
const ENOUGH_ROWS = 1_000;

/**
 * Counts rows: exact up to at least 200,000, then an estimate. Fingerprints are keyed hashes, so
 * every range has its share of the rows, and the primary key finds them. The planner's estimate
 * (reltuples) would cost less. But it is empty on the coordinator of a distributed table and on the
 * parent of a partitioned one.
 * @param counting a statement that returns `records`, with this condition
 * @returns the counts of a sample, and how many such samples the vault has
 */
async function count(pool: Pool, counting: (condition: string) => string, deadlineMs: number) {
  for (const { below, samples } of SAMPLES) {
    const text = counting('token_fingerprint < $1::uuid');
    const { rows } = await pool.query(text, [below.padEnd(32, '0')], deadlineMs);
    const counted = rows.reduce((sum, { records }) => sum + Number(records), 0);
    if (counted >= ENOUGH_ROWS) return { rows, samples };
  }
  return { ...(await pool.query(counting('true'), [], deadlineMs)), samples: 1 };
}

/** Number of rows of the vault. Not exact: estimated from a sample. */
export async function countRecords(pool: Pool, deadlineMs: number) {
  const counting = (condition: string) =>
    `select count(*) as records from standin.records where ${condition}`;
  const { rows, samples } = await count(pool, counting, deadlineMs);
  return { records: Number(rows[0]!.records) * samples, isExact: samples === 1 };
}

/**
 * Number of records with a value, by the key version that seals them. Not exact: estimated from a
 * sample, which may miss a version with few records.
 */
export async function countByVersion(pool: Pool, deadlineMs: number) {
  const counting = (condition: string) => `select key_version, count(*) as records
    from standin.records where octet_length(sealed) > 0 and ${condition} group by key_version`;
  const { rows, samples } = await count(pool, counting, deadlineMs);
  const byVersion: ReadonlyMap<number, number> = new Map(
    rows.map((row) => [Number(row.key_version), Number(row.records) * samples]),
  );
  return { byVersion, isExact: samples === 1 };
}

/** Size of the table of records with its indexes, on all nodes. */
export async function recordsBytes(pool: Pool, deadlineMs: number): Promise<number> {
  const query = pool.queryUntil(deadlineMs);
  const size = (await hasCitus(query)) ? 'citus_total_relation_size' : 'pg_total_relation_size';
  return Number((await query(`select ${size}('standin.records') as bytes`)).rows[0]!.bytes);
}
