import { byteaArray, smallintArray, uuidArray } from './bytea-array.ts';
import { columns, leasedColumns, type NewRecord } from './new-records.ts';
import type { Query } from './pool.ts';
import { SEALED } from './record-row.ts';
import type { Replacement } from './record-walk.ts';

/**
 * Key versions that records may be written with. Every statement that writes `sealed` reads them
 * itself. So a process, backend or machine that stood still cannot write with a key retired
 * meanwhile (docs/decisions/0015). An array, because a join could change the order of row locks.
 */
const OPEN_VERSIONS = `array(select version from standin.keyring
    where purpose = 'dek' and closed_at is null)`;
/** Whether commits wait for a standby. */
export const HAS_STANDBY = "current_setting('synchronous_standby_names') <> ''";

/**
 * Counts the inserted rows itself. The row count of Citus includes rows in conflict, so a collision
 * would pass as stored.
 */
const INSERT = `with inserted as (
  insert into standin.records (token_fingerprint, value_fingerprint, key_version, sealed)
  select * from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::bytea[])
    as new (token, value, version, sealed) where version = any(${OPEN_VERSIONS})
  on conflict (token_fingerprint) do nothing returning 1
) select count(*) as count, ${HAS_STANDBY} as has_standby from inserted`;
/**
 * A record lives a 16th longer than its time to live, so that a repeated value need not be written
 * every time.
 */
const LEASED = `insert into standin.records as there
    (token_fingerprint, value_fingerprint, key_version, sealed, expires_at)
  select token, value, version, sealed, now() + time_to_live_s * interval '1.0625 s'
  from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::bytea[], $5::integer[])
    as new (token, value, version, sealed, time_to_live_s)
  where version = any(${OPEN_VERSIONS})
  on conflict (token_fingerprint)`;
const INSERT_LEASED = `with inserted as (
  ${LEASED} do nothing returning 1
) select count(*) as count, ${HAS_STANDBY} as has_standby from inserted`;
/**
 * Restores removed records and extends records that expire too early; never shortens. A plain
 * update would not lock rows in the given order, so two of them, or one and a removal, could
 * deadlock. Citus refuses an update from a list.
 */
const KEEP = `with kept as (
  ${LEASED} do update
  set key_version = excluded.key_version, sealed = excluded.sealed, expires_at = excluded.expires_at
  where there.value_fingerprint = excluded.value_fingerprint
    and (there.sealed = '' or there.expires_at < excluded.expires_at
      or (there.expires_at is not null and excluded.expires_at is null))
  returning 1
) select count(*) as count, ${OPEN_VERSIONS} as open_versions from kept`;
/** Changes a record only if it is still the one that did not open. */
const MEND = `with mended as (
  update standin.records as there set key_version = fresh.version, sealed = fresh.sealed
  from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::bytea[], $5::bytea[])
    as fresh (token, value, version, sealed, old_sealed)
  where there.token_fingerprint = fresh.token and there.value_fingerprint = fresh.value
    and ${SEALED} = fresh.old_sealed and fresh.version = any(${OPEN_VERSIONS})
  returning 1
) select count(*) as count from mended`;

/** Inserts the records that have no row yet. Also returns whether commits wait for a standby. */
export async function insertNew(
  query: Query,
  rows: readonly NewRecord[],
): Promise<{ readonly count: number; readonly has_standby: boolean }> {
  const hasLeased = rows.some((row) => row.time_to_live_s !== undefined);
  const result = await query(
    hasLeased ? INSERT_LEASED : INSERT,
    hasLeased ? leasedColumns(rows) : columns(rows),
  );
  const { count, has_standby: hasStandby } = result.rows[0]!;
  return { count: Number(count), has_standby: hasStandby === 't' };
}

/** Writes records that were removed or expire too early. Also returns the open key versions. */
export async function keep(
  query: Query,
  rows: readonly NewRecord[],
): Promise<{ readonly count: number; readonly open_versions: ReadonlySet<number> }> {
  const { count, open_versions: openVersions } = (await query(KEEP, leasedColumns(rows))).rows[0]!;
  const versions = openVersions!.slice(1, -1).split(',').map(Number);
  return { count: Number(count), open_versions: new Set(versions) };
}

/** Replaces records that did not open with fresh ones; returns how many. */
export async function mend(query: Query, replacements: readonly Replacement[]): Promise<number> {
  const { rows } = await query(MEND, [
    uuidArray(replacements.map(({ fresh }) => fresh.token_fingerprint)),
    uuidArray(replacements.map(({ fresh }) => fresh.value_fingerprint)),
    smallintArray(replacements.map(({ fresh }) => fresh.key_version)),
    byteaArray(replacements.map(({ fresh }) => fresh.sealed)),
    byteaArray(replacements.map(({ old }) => old.sealed)),
  ]);
  return Number(rows[0]!.count);
}
