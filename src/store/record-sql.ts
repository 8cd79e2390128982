import type {
  FreshRecord,
  Sealed,
  SealedRecord,
  TokenFingerprint,
  ValueFingerprint,
} from '../types.ts';
import { byteaArray, smallintArray, uuidArray } from './bytea-array.ts';
import type { Query } from './connection.ts';

/*
 * The statements that write records, the one that finds what they have met, and the form of a row.
 */

/** The columns of a row as one bytea: the driver parses one text instead of four. */
export const FINGERPRINTS = 'uuid_send(token_fingerprint) || uuid_send(value_fingerprint)';
export const UNSEALED = `${FINGERPRINTS} || int2send(key_version)`;
/**
 * `sealed` of a row of `there`. The column can be null if somebody dropped `not null`: return a
 * byte that does not open.
 */
export const SEALED = "coalesce(there.sealed, decode('00', 'hex'))";
/** Offsets of the columns in that bytea. */
const VALUE_FINGERPRINT = 16;
const KEY_VERSION = 32;
const SEALED_START = 34;

/** @param row begins with FINGERPRINTS */
export function tokenFingerprintOf(row: Buffer): TokenFingerprint {
  return row.toString('latin1', 0, VALUE_FINGERPRINT) as TokenFingerprint;
}

/** Whether the record has its value: `sealed` is not empty. */
export function hasValue(row: Buffer): boolean {
  return row.length > SEALED_START;
}

/** @param row UNSEALED, and `sealed` if it was asked for */
export function recordOf(row: Buffer): SealedRecord {
  return {
    token_fingerprint: tokenFingerprintOf(row),
    value_fingerprint: row.toString('latin1', VALUE_FINGERPRINT, KEY_VERSION) as ValueFingerprint,
    key_version: row.readInt16BE(KEY_VERSION),
    sealed: row.subarray(SEALED_START) as Sealed,
  };
}

/** A record to insert. Without a time to live, it never expires. */
export type NewRecord = FreshRecord & { readonly time_to_live_s?: number };

/** An existing record and the record to replace it with. */
export interface Replacement {
  readonly old: SealedRecord;
  readonly fresh: FreshRecord;
}

/** The parameters of a statement that writes records, one array a column. */
function columns(rows: readonly SealedRecord[]): Buffer[] {
  return [...columnsWithoutValue(rows), byteaArray(rows.map((row) => row.sealed))];
}

export function columnsWithoutValue(rows: readonly SealedRecord[]): Buffer[] {
  return [
    uuidArray(rows.map((row) => row.token_fingerprint)),
    uuidArray(rows.map((row) => row.value_fingerprint)),
    smallintArray(rows.map((row) => row.key_version)),
  ];
}

function leasedColumns(rows: readonly NewRecord[]): unknown[] {
  return [...columns(rows), rows.map((row) => row.time_to_live_s ?? null), keyIdsOf(rows)];
}

/** All statements lock rows in this order, so that two nodes cannot deadlock. */
export function byFingerprint(a: SealedRecord, b: SealedRecord): number {
  const [one, other] = [a.token_fingerprint, b.token_fingerprint];
  // Most differ in the first byte. To compare two strings would cost three times as much.
  const first = one.charCodeAt(0) - other.charCodeAt(0);
  if (first !== 0 || one === other) return first;
  return one < other ? -1 : 1;
}

/**
 * Of records with the same token, the first value stays, with the longest time to live of its
 * records.
 */
export function sortedDistinct(records: readonly NewRecord[]): NewRecord[] {
  const rows: NewRecord[] = [];
  for (const record of records.toSorted(byFingerprint)) {
    const last = rows.at(-1);
    if (last === undefined || last.token_fingerprint !== record.token_fingerprint) {
      rows.push(record);
    } else if (last.value_fingerprint === record.value_fingerprint && isLonger(record, last)) {
      rows[rows.length - 1] = record;
    }
  }
  return rows;
}

function isLonger(record: NewRecord, other: NewRecord): boolean {
  return (record.time_to_live_s ?? Infinity) > (other.time_to_live_s ?? Infinity);
}

/**
 * Key versions that records may be written with. Every statement that writes `sealed` reads them
 * itself. So a process, backend or machine that stood still cannot write with a key retired
 * meanwhile, or with one that a failover lost and whose version another key has now
 * (docs/decisions/0015). An array, because a join could change the order of row locks.
 * @param keyIds the parameter with `keyIdsOf` the records
 */
const openVersions = (keyIds: string) => `array(select version from standin.keyring
    where purpose = 'dek' and closed_at is null and created_at = any(${keyIds}::timestamptz[]))`;

/** The keys that sealed the records. A version with two keys is left out: one of them was lost. */
function keyIdsOf(records: readonly FreshRecord[]): string[] {
  const byVersion = new Map<number, string>();
  for (const { key_version: version, key_id: id } of records)
    byVersion.set(version, (byVersion.get(version) ?? id) === id ? id : '');
  return [...byVersion.values()].filter((id) => id !== '');
}
/** Whether commits wait for a standby. */
const HAS_STANDBY = "current_setting('synchronous_standby_names') <> ''";

/**
 * Counts the inserted rows itself. The row count of Citus includes rows in conflict, so a collision
 * would pass as stored.
 */
const INSERT = `with inserted as (
  insert into standin.records (token_fingerprint, value_fingerprint, key_version, sealed)
  select * from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::bytea[])
    as new (token, value, version, sealed) where version = any(${openVersions('$5')})
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
  where version = any(${openVersions('$6')})
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
) select count(*) as count, ${openVersions('$6')} as open_versions from kept`;
/** A record gives its place to one of another value, only while it is the one that was read. */
const SUPERSEDE = `${LEASED} do update
  set value_fingerprint = excluded.value_fingerprint, key_version = excluded.key_version,
    sealed = excluded.sealed, expires_at = excluded.expires_at
  where there.sealed = any($7::bytea[])`;
/**
 * Changes a record only if it is still the one that was read. Counts the changed rows, because the
 * row count of Citus differs, as on insert.
 */
const REPLACE = `with changed as (
  update standin.records as there set key_version = fresh.version, sealed = fresh.sealed
  from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::bytea[], $5::bytea[])
    as fresh (token, value, version, sealed, old_sealed)
  where there.token_fingerprint = fresh.token and there.value_fingerprint = fresh.value
    and ${SEALED} = fresh.old_sealed and fresh.version = any(${openVersions('$6')})
  returning 1
) select count(*) as count from changed`;

/** Inserts the records that have no row yet. Also returns whether commits wait for a standby. */
export async function insertNew(
  query: Query,
  rows: readonly NewRecord[],
): Promise<{ readonly count: number; readonly hasStandby: boolean }> {
  const hasLeased = rows.some((row) => row.time_to_live_s !== undefined);
  const result = await query(
    hasLeased ? INSERT_LEASED : INSERT,
    hasLeased ? leasedColumns(rows) : [...columns(rows), keyIdsOf(rows)],
  );
  const { count, has_standby: hasStandby } = result.rows[0]!;
  return { count: Number(count), hasStandby: hasStandby === 't' };
}

/** Writes records that were removed or expire too early. Also returns the open key versions. */
export async function keep(
  query: Query,
  rows: readonly NewRecord[],
): Promise<{ readonly count: number; readonly openVersions: ReadonlySet<number> }> {
  const { count, open_versions: openVersions } = (await query(KEEP, leasedColumns(rows))).rows[0]!;
  const versions = openVersions!.slice(1, -1).split(',').map(Number);
  return { count: Number(count), openVersions: new Set(versions) };
}

/** Puts records in the place of old ones that have not changed since they were read. */
export async function supersede(
  query: Query,
  rows: readonly NewRecord[],
  old: readonly SealedRecord[],
): Promise<void> {
  const sealed = byteaArray(old.map((record) => record.sealed));
  await query(SUPERSEDE, [...leasedColumns(rows), sealed]);
}

/** Replaces records that have not changed since they were read; returns how many. */
export async function replace(query: Query, replacements: readonly Replacement[]): Promise<number> {
  const fresh = replacements.map((one) => one.fresh);
  const { rows } = await query(REPLACE, [
    ...columns(fresh),
    byteaArray(replacements.map(({ old }) => old.sealed)),
    keyIdsOf(fresh),
  ]);
  return Number(rows[0]!.count);
}

/** The row of a token, removed or not. */
export interface StoredRecord {
  /** `sealed` is empty after the value was removed. */
  readonly record: SealedRecord;
  /** Seconds until the record expires, by the clock of the database. null: never; 0: removed. */
  readonly leftS: number | null;
}

/** A server has this setting only when Citus is loaded. */
const HAS_CITUS = "current_setting('citus.shard_count', true) is not null";
const MESSAGE = "pg_logical_emit_message(true, 'standin', '')::text";
/**
 * "Already stored" must be as durable as "written now". But a statement that only reads waits for
 * no standby. So, with a standby configured, this writes a message to the WAL: the commit waits
 * until the standby has everything up to it. In ON_CITUS it is evaluated for each row, on the
 * worker that has the row, so the commit waits for the worker's standby.
 */
export const WAITS_FOR_STANDBY = `case when ${HAS_STANDBY} then ${MESSAGE} end`;
/** PostgreSQL evaluates it at most once; Citus only on the coordinator, so it asks for ON_CITUS. */
const ONCE = `(select case when ${HAS_CITUS} then 'citus'
    when ${HAS_STANDBY} then ${MESSAGE} end)`;
export const ON_ONE_SERVER = findingWith(ONCE);
export const ON_CITUS = findingWith(WAITS_FOR_STANDBY);

function findingWith(waitedFor: string): string {
  return `select ${UNSEALED} || ${SEALED} as row,
      case when sealed = '' then 0 else extract(epoch from expires_at - now()) end as left_s,
      ${waitedFor} as waited_for
    from standin.records as there where token_fingerprint = any($1::uuid[])`;
}
