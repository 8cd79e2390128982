import { hasCitus } from './distribute.ts';
import type { Pool } from './pool.ts';

/** What matters of a Postgres server to a vault. */
export interface ServerFacts {
  /** As in server_version_num: 150018 is 15.18. */
  readonly version_number: number;
  readonly version: string;
  /** `name=value` of the settings that make acknowledged writes lossable. */
  readonly unsafeSettings: readonly string[];
}

/**
 * What the sessions of this user begin with, which those that are there do not show. What the URL
 * itself sets (source client) is not changed by it.
 */
const OF_NEW_SESSIONS = `select split_part(setting, '=', 2)
  from pg_db_role_setting, unnest(setconfig) as setting
  where setting like 'synchronous_commit=%'
    and setdatabase in (0, (select oid from pg_database where datname = current_database()))
    and setrole in (0, (select oid from pg_roles where rolname = session_user))
    and (select source from pg_settings where name = 'synchronous_commit') <> 'client'
  order by setrole = 0, setdatabase = 0 limit 1`;
const FACTS = `select current_setting('server_version_num') as version_number,
  current_setting('server_version') as version, current_setting('fsync') as fsync,
  current_setting('full_page_writes') as full_page_writes,
  current_setting('synchronous_commit') as of_this_session, (${OF_NEW_SESSIONS}) as of_new_sessions,
  current_setting('synchronous_standby_names') as standbys`;
/** As a role or a database may have it: nobody has put it in its usual form. */
const OFF = /^(off|false|no|0)$/i;

export async function serverFacts(pool: Pool, deadlineMs: number): Promise<ServerFacts> {
  const row = (await pool.query(FACTS, [], deadlineMs)).rows[0]!;
  const commits = [row.of_this_session!, row.of_new_sessions ?? 'on'];
  const unsafeSettings = ['fsync', 'full_page_writes']
    .filter((name) => row[name] === 'off')
    .map((name) => `${name}=off`);
  if (commits.some((commit) => OFF.test(commit))) unsafeSettings.push('synchronous_commit=off');
  // A standby that may be promoted without what was acknowledged.
  else if (row.standbys !== '' && commits.some((commit) => /^local$/i.test(commit)))
    unsafeSettings.push('synchronous_commit=local');
  return { version_number: Number(row.version_number), version: row.version!, unsafeSettings };
}

/** Parts of the vault, smallest first: rows with a fingerprint below, and how many such parts. */
export const SLICES = [
  { below: '0001', slices: 65_536 },
  { below: '0010', slices: 4_096 },
  { below: '01', slices: 256 },
];
/** Enough for an estimate that is right within a few percent. */
export const ENOUGH_ROWS = 1_000;

export interface RecordCount {
  readonly records: number;
  /** false: estimated from a part. */
  readonly isExact: boolean;
}

/**
 * Rows of the vault: exact up to 200,000 at least, then an estimate. Fingerprints are keyed hashes,
 * so every range of them has its share of the rows, and the primary key finds those of a range. The
 * planner's estimate (reltuples) would cost less, but is empty on the coordinator of a distributed
 * table and on the parent of a partitioned one.
 */
export async function countRecords(pool: Pool, deadlineMs: number): Promise<RecordCount> {
  for (const { below, slices } of SLICES) {
    const { rows } = await pool.query(
      'select count(*) as rows from standin.records where token_fingerprint < $1::uuid',
      [below.padEnd(32, '0')],
      deadlineMs,
    );
    const counted = Number(rows[0]!.rows);
    if (counted >= ENOUGH_ROWS) return { records: counted * slices, isExact: false };
  }
  const exact = await pool.query('select count(*) as rows from standin.records', [], deadlineMs);
  return { records: Number(exact.rows[0]!.rows), isExact: true };
}

/** Of the table of records with its indexes, on all nodes. */
export async function recordsBytes(pool: Pool, deadlineMs: number): Promise<number> {
  const isCitus = await hasCitus((text) => pool.query(text, [], deadlineMs));
  const size = isCitus ? 'citus_total_relation_size' : 'pg_total_relation_size';
  const text = `select ${size}('standin.records') as bytes`;
  return Number((await pool.query(text, [], deadlineMs)).rows[0]!.bytes);
}

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
  keyVersion: number,
  deadlineMs: number,
): Promise<void> {
  const fingerprint = bytes.toString('hex', 0, 16);
  const probing = pool.transaction(deadlineMs, async (query) => {
    await query(PROBE, [fingerprint, keyVersion, bytes]);
    throw new Done();
  });
  await probing.catch((error) => {
    if (!(error instanceof Done)) throw error;
  });
}
