import type { Pool } from './pool.ts';

/** What matters of a Postgres server to a vault. */
export interface ServerFacts {
  /** As in server_version_num: 150018 is 15.18. */
  readonly version_number: number;
  readonly version: string;
  /** Names of the settings that make acknowledged writes lossable. */
  readonly unsafe_settings: readonly string[];
}

const FACTS = `select current_setting('server_version_num') as version_number, current_setting('server_version') as version,
  current_setting('fsync') as fsync,
  current_setting('synchronous_commit') as synchronous_commit, current_setting('full_page_writes') as full_page_writes`;

export async function serverFacts(pool: Pool, deadline_ms: number): Promise<ServerFacts> {
  const row = (await pool.query(FACTS, [], deadline_ms)).rows[0]!;
  return {
    version_number: Number(row.version_number),
    version: row.version!,
    unsafe_settings: ['fsync', 'synchronous_commit', 'full_page_writes'].filter(
      (name) => row[name] === 'off',
    ),
  };
}

/** Fails on a standby as every write there does (25006); on a primary it does nothing. */
export const DEMAND_PRIMARY =
  'select case when pg_is_in_recovery() then pg_current_xact_id() end as nothing';

/** Resolves when a primary answers a trivial statement; Unavailable otherwise. */
export async function ping(pool: Pool, deadline_ms: number): Promise<void> {
  await pool.query(DEMAND_PRIMARY, [], deadline_ms);
}

const EXACT_COUNT_UP_TO = 100_000;

/** Rows of the vault: exact up to 100,000, then the planner's estimate, which costs nothing. */
export async function countRecords(pool: Pool, deadline_ms: number): Promise<number> {
  const estimate = await pool.query(
    "select reltuples::bigint as rows from pg_class where oid = 'standin.records'::regclass",
    [],
    deadline_ms,
  );
  const estimated = Number(estimate.rows[0]!.rows);
  if (estimated > EXACT_COUNT_UP_TO) return estimated;
  const exact = await pool.query('select count(*) as rows from standin.records', [], deadline_ms);
  return Number(exact.rows[0]!.rows);
}
