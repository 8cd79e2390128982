import type { Pool } from './pool.ts';

/**
 * synchronous_commit of new sessions of this user, which open sessions do not show. It does not
 * outrank a value from the URL (source `client`).
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
/** PostgreSQL stores the value of a role or a database as it was typed. */
const OFF = /^(off|false|no|0)$/i;

export type ServerFacts = Awaited<ReturnType<typeof serverFacts>>;

/**
 * Facts about a Postgres server that matter to a vault. `version_number` as server_version_num:
 * 150018 is 15.18. `unsafeSettings` has `name=value` of each setting that lets a crash lose
 * acknowledged writes.
 */
export async function serverFacts(pool: Pool, deadlineMs: number) {
  const row = (await pool.query(FACTS, [], deadlineMs)).rows[0]!;
  const commits = [row.of_this_session!, row.of_new_sessions ?? 'on'];
  const unsafeSettings = ['fsync', 'full_page_writes']
    .filter((name) => row[name] === 'off')
    .map((name) => `${name}=off`);
  if (commits.some((commit) => OFF.test(commit))) unsafeSettings.push('synchronous_commit=off');
  // With `local`, a standby can be promoted that lacks acknowledged writes.
  else if (row.standbys !== '' && commits.some((commit) => /^local$/i.test(commit)))
    unsafeSettings.push('synchronous_commit=local');
  return { version_number: Number(row.version_number), version: row.version!, unsafeSettings };
}

/** The time by the clock of the database, which decides when records expire. */
export async function databaseTimeMs(pool: Pool, deadlineMs: number): Promise<number> {
  const text = 'select extract(epoch from now()) as now_s';
  return 1_000 * Number((await pool.query(text, [], deadlineMs)).rows[0]!.now_s);
}

const PROBE = `insert into standin.records (token_fingerprint, value_fingerprint, key_version, sealed)
  values ($1::uuid, $1::uuid, $2::smallint, $3::bytea)`;

/**
 * Resolves when the table of records can grow by this many bytes. The transaction is rolled back,
 * so nobody sees them.
 * @param bytes random, so that they do not compress and fit into no existing page
 * @throws InternalError when the table cannot grow
 */
export async function tryToGrow(
  pool: Pool,
  bytes: Buffer,
  keyVersion: number,
  deadlineMs: number,
): Promise<void> {
  const fingerprint = bytes.toString('hex', 0, 16);
  const done = new Error('thrown to roll back');
  const probing = pool.transaction(deadlineMs, async (query) => {
    await query(PROBE, [fingerprint, keyVersion, bytes]);
    throw done;
  });
  await probing.catch((error) => {
    if (error !== done) throw error;
  });
}
