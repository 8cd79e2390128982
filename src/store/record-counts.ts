import type { Pool, QueryResult } from './pool.ts';
import { hasCitus } from './schema.ts';

/** Number of rows of the vault. */
interface RecordCount {
  readonly records: number;
  /** false: estimated from a sample. */
  readonly isExact: boolean;
}

/** Number of records with a value, by the key version that seals them. */
interface VersionCounts {
  readonly byVersion: ReadonlyMap<number, number>;
  /** false: estimated from a sample, which may miss a version with few records. */
  readonly isExact: boolean;
}

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
async function count(
  pool: Pool,
  counting: (condition: string) => string,
  deadlineMs: number,
): Promise<{ readonly rows: QueryResult['rows']; readonly samples: number }> {
  for (const { below, samples } of SAMPLES) {
    const text = counting('token_fingerprint < $1::uuid');
    const { rows } = await pool.query(text, [below.padEnd(32, '0')], deadlineMs);
    const counted = rows.reduce((sum, { records }) => sum + Number(records), 0);
    if (counted >= ENOUGH_ROWS) return { rows, samples };
  }
  return { ...(await pool.query(counting('true'), [], deadlineMs)), samples: 1 };
}

export async function countRecords(pool: Pool, deadlineMs: number): Promise<RecordCount> {
  const { rows, samples } = await count(
    pool,
    (condition) => `select count(*) as records from standin.records where ${condition}`,
    deadlineMs,
  );
  return { records: Number(rows[0]!.records) * samples, isExact: samples === 1 };
}

export async function countByVersion(pool: Pool, deadlineMs: number): Promise<VersionCounts> {
  const { rows, samples } = await count(
    pool,
    (condition) => `select key_version, count(*) as records from standin.records
      where octet_length(sealed) > 0 and ${condition} group by key_version`,
    deadlineMs,
  );
  const counts = rows.map(
    (row) => [Number(row.key_version), Number(row.records) * samples] as const,
  );
  return { byVersion: new Map(counts), isExact: samples === 1 };
}

/** Size of the table of records with its indexes, on all nodes. */
export async function recordsBytes(pool: Pool, deadlineMs: number): Promise<number> {
  const query = pool.queryUntil(deadlineMs);
  const size = (await hasCitus(query)) ? 'citus_total_relation_size' : 'pg_total_relation_size';
  return Number((await query(`select ${size}('standin.records') as bytes`)).rows[0]!.bytes);
}
