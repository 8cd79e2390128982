import type { InsertOutcome, SealedRecord, TokenFingerprint } from '../types.ts';
import { Batcher } from './batcher.ts';
import { bytesOfBytea, uuidArray } from './bytea-array.ts';
import { ReadOnlyServer, Unavailable } from './failure.ts';
import { type Holder, outcomeOf } from './holder.ts';
import { columns, leasedColumns, type NewRecord, sortedDistinct } from './new-records.ts';
import type { Pool } from './pool.ts';
import {
  FINGERPRINTS,
  hasValue,
  recordOf,
  tokenFingerprintOf,
  UNSEALED,
  valueFingerprintOf,
} from './record-row.ts';
import { ping } from './server.ts';

export interface RecordsOptions {
  readonly patience_ms: number;
  readonly onBatch: (statement: 'insert' | 'find', records: number) => void;
}

/**
 * Counts the rows that were inserted. The count that goes with an insert does on PostgreSQL, but
 * Citus counts those in conflict, too, and a collision would pass as stored.
 */
const INSERT = `with inserted as (
  insert into standin.records (token_fingerprint, value_fingerprint, key_version, sealed)
  select * from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::bytea[])
  on conflict (token_fingerprint) do nothing returning 1
) select count(*) as count from inserted`;
/** With a time to live, a 16th longer, so that not every repeated value has to be written again. */
const LEASED = `insert into standin.records as there
    (token_fingerprint, value_fingerprint, key_version, sealed, expires_at)
  select token, value, version, sealed, now() + time_to_live_s * interval '1.0625 s'
  from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::bytea[], $5::integer[])
    as new (token, value, version, sealed, time_to_live_s)
  on conflict (token_fingerprint)`;
const INSERT_LEASED = `with inserted as (
  ${LEASED} do nothing returning 1
) select count(*) as count from inserted`;
/**
 * Puts back what was removed, and extends what would end too early; never shortens. No plain
 * update: this one locks rows in the order in which they are given, so that two of them, or one
 * and a removal, never wait for each other. On Citus an update by a list would not even run.
 */
const KEEP = `with kept as (
  ${LEASED} do update
  set key_version = excluded.key_version, sealed = excluded.sealed, expires_at = excluded.expires_at
  where there.value_fingerprint = excluded.value_fingerprint
    and (there.sealed = '' or there.expires_at < excluded.expires_at
      or (there.expires_at is not null and excluded.expires_at is null))
  returning 1
) select count(*) as count from kept`;
const FIND_HOLDERS = `select ${FINGERPRINTS} as row,
    case when sealed = '' then 0 else extract(epoch from expires_at - now()) end as left_s
  from standin.records where token_fingerprint = any($1::uuid[])`;
/** A record that has expired is as one that was removed, before somebody removes it. */
const FIND = `select ${UNSEALED} || case when expires_at <= now() then '' else sealed end as row
  from standin.records where token_fingerprint = any($1::uuid[])`;

const MAX_BATCH_RECORDS = 1_000;
const MAX_WAITING_RECORDS = 100_000;
const LANES = 2;
/** First pause before a statement is tried again; doubled each time, within the deadline. */
const RETRY_PAUSE_MS = 25;
/** For a promotion that is under way; a caller of a vault that is read-only is told soon. */
const READ_ONLY_PATIENCE_MS = 500;

/**
 * The records of the vault. Concurrent calls share statements (group commit); nothing is kept in
 * memory.
 */
export class RecordStore {
  readonly #pool: Pool;
  readonly #inserts: Batcher<NewRecord, InsertOutcome>;
  readonly #finds: Batcher<TokenFingerprint, SealedRecord | null | undefined>;
  readonly #holders: Batcher<TokenFingerprint, Holder | undefined>;

  constructor(pool: Pool, options: RecordsOptions) {
    this.#pool = pool;
    const bounds = {
      lanes: LANES,
      max_batch_items: MAX_BATCH_RECORDS,
      max_waiting_items: MAX_WAITING_RECORDS,
      patience_ms: options.patience_ms,
    };
    const countFind = (records: number) => options.onBatch('find', records);
    this.#inserts = new Batcher({
      ...bounds,
      onBatch: (records) => options.onBatch('insert', records),
      run: (records, deadline_ms) => retried(deadline_ms, () => this.#insert(records, deadline_ms)),
    });
    this.#finds = new Batcher({
      ...bounds,
      onBatch: countFind,
      run: (fingerprints, deadline_ms) =>
        retried(deadline_ms, () => this.#find(fingerprints, deadline_ms)),
    });
    this.#holders = new Batcher({
      ...bounds,
      onBatch: countFind,
      run: (fingerprints, deadline_ms) =>
        retried(deadline_ms, async () => {
          const holders = await this.#findHolders(fingerprints, deadline_ms);
          return fingerprints.map((fingerprint) => holders.get(fingerprint));
        }),
    });
  }

  /**
   * Durable when it resolves. Idempotent: a record that is there already is `stored`.
   * @param time_to_live_s how long they are to be there at least, from this call on, by the clock
   * of the database; null: for ever. The longest that was ever asked for counts.
   */
  insert(
    records: readonly SealedRecord[],
    time_to_live_s: number | null = null,
  ): Promise<readonly InsertOutcome[]> {
    return this.#inserts.submit(
      time_to_live_s === null ? records : records.map((record) => ({ ...record, time_to_live_s })),
    );
  }

  /** null: it was removed or has expired; undefined: there never was one. */
  find(
    fingerprints: readonly TokenFingerprint[],
  ): Promise<readonly (SealedRecord | null | undefined)[]> {
    return this.#finds.submit(fingerprints);
  }

  /** What is there of each token, removed or not: cheaper than the records themselves. */
  holders(fingerprints: readonly TokenFingerprint[]): Promise<readonly (Holder | undefined)[]> {
    return this.#holders.submit(fingerprints);
  }

  async #insert(records: readonly NewRecord[], deadline_ms: number): Promise<InsertOutcome[]> {
    const rows = sortedDistinct(records);
    const has_leased = rows.some((row) => row.time_to_live_s !== undefined);
    const { rows: counts } = await this.#pool.query(
      has_leased ? INSERT_LEASED : INSERT,
      has_leased ? leasedColumns(rows) : columns(rows),
      deadline_ms,
    );
    const inserted = Number(counts[0]!.count);
    if (inserted === records.length) return records.map(() => 'stored');
    const holders =
      inserted === rows.length
        ? new Map(rows.map((row) => [row.token_fingerprint, { ...row, left_s: null }]))
        : await this.#findHolders(
            rows.map((row) => row.token_fingerprint),
            deadline_ms,
          );
    const outcomes = records.map((record) => outcome(record, holders));
    return isComplete(outcomes) ? outcomes : this.#keep(records, outcomes, deadline_ms);
  }

  /** For the records that have no outcome yet. */
  async #keep(
    records: readonly NewRecord[],
    outcomes: readonly (InsertOutcome | undefined)[],
    deadline_ms: number,
  ): Promise<InsertOutcome[]> {
    const missing = sortedDistinct(records.filter((_, i) => outcomes[i] === undefined));
    const { rows: counts } = await this.#pool.query(KEEP, leasedColumns(missing), deadline_ms);
    if (Number(counts[0]!.count) === missing.length) {
      return outcomes.map((outcome) => outcome ?? 'stored');
    }
    // Another was faster, or a removal was.
    const holders = await this.#findHolders(
      missing.map((row) => row.token_fingerprint),
      deadline_ms,
    );
    const kept = records.map((record, i) => outcomes[i] ?? outcome(record, holders));
    if (isComplete(kept)) return kept;
    throw new Unavailable(new Error('a record went away'));
  }

  /**
   * Which value each token stands for. A row of a concurrent insert is visible only to a new
   * statement: read again.
   */
  async #findHolders(
    fingerprints: readonly TokenFingerprint[],
    deadline_ms: number,
  ): Promise<Map<TokenFingerprint, Holder>> {
    const { rows } = await this.#pool.query(FIND_HOLDERS, [uuidArray(fingerprints)], deadline_ms);
    const holders = new Map<TokenFingerprint, Holder>();
    for (const { row, left_s } of rows) {
      const bytes = bytesOfBytea(row!);
      holders.set(tokenFingerprintOf(bytes), {
        value_fingerprint: valueFingerprintOf(bytes),
        left_s: left_s == null ? null : Number(left_s),
      });
    }
    return holders;
  }

  async #find(
    fingerprints: readonly TokenFingerprint[],
    deadline_ms: number,
  ): Promise<(SealedRecord | null | undefined)[]> {
    const { rows } = await this.#pool.query(FIND, [uuidArray(fingerprints)], deadline_ms);
    const found = new Map<TokenFingerprint, SealedRecord | null>();
    for (const { row } of rows) {
      const bytes = bytesOfBytea(row!);
      found.set(tokenFingerprintOf(bytes), hasValue(bytes) ? recordOf(bytes) : null);
    }
    const records = fingerprints.map((fingerprint) => found.get(fingerprint));
    // A pooler may have changed servers under this connection, and a standby may not know it yet.
    if (!records.every(Boolean)) await ping(this.#pool, deadline_ms);
    return records;
  }
}

function outcome(
  record: NewRecord,
  holders: ReadonlyMap<TokenFingerprint, Holder>,
): InsertOutcome | undefined {
  const holder = holders.get(record.token_fingerprint);
  return outcomeOf(holder, record.value_fingerprint, record.time_to_live_s ?? null);
}

function isComplete(outcomes: (InsertOutcome | undefined)[]): outcomes is InsertOutcome[] {
  return !outcomes.includes(undefined);
}

/**
 * Tries again while the database is unavailable and the deadline allows: both statements are
 * idempotent.
 */
export async function retried<T>(deadline_ms: number, attempt: () => Promise<T>): Promise<T> {
  const read_only_deadline_ms = performance.now() + READ_ONLY_PATIENCE_MS;
  for (let pause_ms = RETRY_PAUSE_MS; ; pause_ms *= 2) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      const next_ms = performance.now() + pause_ms;
      const is_read_only = error instanceof ReadOnlyServer;
      if (next_ms >= deadline_ms || (is_read_only && next_ms >= read_only_deadline_ms)) throw error;
      await new Promise((resolve) => setTimeout(resolve, pause_ms));
    }
  }
}
