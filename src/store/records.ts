import { Batcher } from '../batcher.ts';
import { Unavailable } from '../errors.ts';
import type { InsertOutcome, Sealed, SealedRecord, TokenFingerprint } from '../types.ts';
import { bytesOfBytea, uuidArray } from './bytea-array.ts';
import { ReadOnlyServer } from './database-error.ts';
import { type Holder, HolderFinder, outcomeOf } from './holder.ts';
import { type NewRecord, sortedDistinct } from './new-records.ts';
import type { Pool, Query } from './pool.ts';
import {
  FINGERPRINTS,
  hasValue,
  recordOf,
  SEALED,
  tokenFingerprintOf,
  UNSEALED,
} from './record-row.ts';
import type { Replacement } from './record-walk.ts';
import { insertNew, keep, mend } from './record-writes.ts';

export interface RecordsOptions {
  readonly patienceMs: number;
  readonly onBatch: (statement: 'insert' | 'find', records: number) => void;
}

/** An expired record counts as removed, even before its value is removed. */
const FIND = `select ${UNSEALED} || case when expires_at <= now() then '' else ${SEALED} end as row
  from standin.records as there where token_fingerprint = any($1::uuid[])`;
/** PostgreSQL returns the length of a large value without reading the value. */
const SIZES = `select ${FINGERPRINTS} as row,
    case when expires_at <= now() then 0 else octet_length(sealed) end as bytes
  from standin.records where token_fingerprint = any($1::uuid[])`;

const MAX_BATCH_RECORDS = 1_000;
/**
 * Sealed bytes. The driver holds the text of a batch, twice as long, and its bytes at the same
 * time.
 */
const MAX_BATCH_BYTES = 2_097_152;
const MAX_WAITING_RECORDS = 100_000;
const LANES = 2;
/** The database writes this many while the next ones are sealed: 16 requests of three values. */
const EAGER_RECORDS = 48;
/** First pause before another attempt. The pause doubles each time, within the deadline. */
const RETRY_PAUSE_MS = 25;
/**
 * Long enough for a promotion under way, short enough to tell callers soon that the vault is
 * read-only.
 */
const READ_ONLY_PATIENCE_MS = 500;

/**
 * The records of the vault. Concurrent calls share statements (group commit). Keeps no record in
 * memory.
 */
export class RecordStore {
  readonly #pool: Pool;
  readonly #patienceMs: number;
  readonly #inserts: Batcher<NewRecord, InsertOutcome>;
  readonly #finds: Batcher<TokenFingerprint, SealedRecord | null | undefined>;
  readonly #sizes: Batcher<TokenFingerprint, number | null | undefined>;
  readonly #holders: Batcher<TokenFingerprint, Holder | undefined>;
  readonly #finder = new HolderFinder();
  /** As of the last insert. */
  #hasStandby = false;

  constructor(pool: Pool, options: RecordsOptions) {
    this.#pool = pool;
    this.#patienceMs = options.patienceMs;
    const bounds = {
      lanes: LANES,
      eagerItems: EAGER_RECORDS,
      maxBatchItems: MAX_BATCH_RECORDS,
      maxBatchBytes: MAX_BATCH_BYTES,
      maxWaitingItems: MAX_WAITING_RECORDS,
      patienceMs: options.patienceMs,
    };
    const countFind = (records: number) => options.onBatch('find', records);
    this.#inserts = new Batcher({
      ...bounds,
      onBatch: (records) => options.onBatch('insert', records),
      run: (records, deadlineMs) => retried(deadlineMs, () => this.#insert(records, deadlineMs)),
    });
    this.#finds = new Batcher({
      ...bounds,
      onBatch: countFind,
      run: (fingerprints, deadlineMs) =>
        retried(deadlineMs, () => this.#find(fingerprints, deadlineMs)),
    });
    this.#sizes = new Batcher({
      ...bounds,
      onBatch: countFind,
      run: (fingerprints, deadlineMs) =>
        retried(deadlineMs, () => this.#findSizes(fingerprints, deadlineMs)),
    });
    this.#holders = new Batcher({
      ...bounds,
      onBatch: countFind,
      run: (fingerprints, deadlineMs) =>
        retried(deadlineMs, async () => {
          const query: Query = (text, values) => this.#pool.query(text, values ?? [], deadlineMs);
          const holders = await this.#finder.find(query, fingerprints);
          return fingerprints.map((fingerprint) => holders.get(fingerprint));
        }),
    });
  }

  /**
   * Inserts records. When it resolves, each record is durable, on a synchronous standby too,
   * whether it was written or found. Idempotent: returns the existing record of a value.
   * @param timeToLiveS how long the records must stay at least, from now on, by the clock of the
   * database; null: for ever. The longest time ever asked for wins.
   * @param deadlineMs a performance.now() time, as for all statements below
   */
  insert(
    records: readonly SealedRecord[],
    timeToLiveS: number | null = null,
    deadlineMs?: number,
  ): Promise<readonly InsertOutcome[]> {
    let bytes = 0;
    for (const { sealed } of records) bytes += sealed.length;
    return this.#inserts.submit(
      timeToLiveS === null
        ? records
        : records.map((record) => ({ ...record, time_to_live_s: timeToLiveS })),
      bytes,
      deadlineMs,
    );
  }

  /**
   * null: removed or expired; undefined: no such record.
   * @param bytes the largest possible size of the records, as far as known
   */
  find(
    fingerprints: readonly TokenFingerprint[],
    bytes = 0,
    deadlineMs?: number,
  ): Promise<readonly (SealedRecord | null | undefined)[]> {
    return this.#finds.submit(fingerprints, bytes, deadlineMs);
  }

  /** The sealed bytes of each record that `find` would return. Reads no large value. */
  sizes(
    fingerprints: readonly TokenFingerprint[],
    deadlineMs?: number,
  ): Promise<readonly (number | null | undefined)[]> {
    return this.#sizes.submit(fingerprints, 0, deadlineMs);
  }

  /** The row of each token, removed or not. As durable as the records that `insert` finds. */
  holders(
    fingerprints: readonly TokenFingerprint[],
    deadlineMs?: number,
  ): Promise<readonly (Holder | undefined)[]> {
    return this.#holders.submit(fingerprints, 0, deadlineMs);
  }

  /** If commits wait for a standby, all statements share one transaction, and so one wait. */
  #insert(records: readonly NewRecord[], deadlineMs: number): Promise<InsertOutcome[]> {
    const work = (query: Query) => this.#store(query, records);
    if (this.#hasStandby) return this.#pool.transaction(deadlineMs, work);
    return work((text, values) => this.#pool.query(text, values ?? [], deadlineMs));
  }

  async #store(query: Query, records: readonly NewRecord[]): Promise<InsertOutcome[]> {
    const rows = sortedDistinct(records);
    const { count, has_standby: hasStandby } = await insertNew(query, rows);
    this.#hasStandby = hasStandby;
    if (count === records.length) return records.map(() => 'stored');
    const fingerprints = rows.map((row) => row.token_fingerprint);
    const holders =
      count === rows.length
        ? new Map(rows.map((record) => [record.token_fingerprint, { record, left_s: null }]))
        : await this.#finder.find(query, fingerprints);
    const written = new Map(rows.map((row) => [row.token_fingerprint, row.sealed]));
    const outcomes = records.map((record) => outcome(record, holders, written));
    return isComplete(outcomes) ? outcomes : this.#keepMissing(query, records, outcomes);
  }

  /** Writes the records that have no outcome yet. */
  async #keepMissing(
    query: Query,
    records: readonly NewRecord[],
    outcomes: readonly (InsertOutcome | undefined)[],
  ): Promise<InsertOutcome[]> {
    const missing = sortedDistinct(records.filter((_, i) => outcomes[i] === undefined));
    const { count, open_versions: openVersions } = await keep(query, missing);
    if (count === missing.length) return outcomes.map((outcome) => outcome ?? 'stored');
    // Another insert or a removal was faster, or the key version is closed.
    const holders = await this.#finder.find(
      query,
      missing.map((row) => row.token_fingerprint),
    );
    const written = new Map(missing.map((row) => [row.token_fingerprint, row.sealed]));
    const kept = records.map((record, i) => {
      const isOpen = openVersions.has(record.key_version);
      return (
        outcomes[i] ?? outcome(record, holders, written) ?? (isOpen ? undefined : 'key_retired')
      );
    });
    if (isComplete(kept)) return kept;
    throw new Unavailable(new Error('a record went away'));
  }

  /**
   * Replaces records that do not open with fresh ones. A record that changed meanwhile stays, and
   * so does a record whose new key version is closed: insert again to see its outcome.
   */
  mend(
    replacements: readonly Replacement[],
    deadlineMs = performance.now() + this.#patienceMs,
  ): Promise<number> {
    return retried(deadlineMs, () =>
      mend((text, values) => this.#pool.query(text, values ?? [], deadlineMs), replacements),
    );
  }

  async #find(
    fingerprints: readonly TokenFingerprint[],
    deadlineMs: number,
  ): Promise<(SealedRecord | null | undefined)[]> {
    const { rows } = await this.#pool.query(FIND, [uuidArray(fingerprints)], deadlineMs);
    const found = new Map<TokenFingerprint, SealedRecord | null>();
    for (const { row } of rows) {
      const bytes = bytesOfBytea(row!);
      found.set(tokenFingerprintOf(bytes), hasValue(bytes) ? recordOf(bytes) : null);
    }
    const records = fingerprints.map((fingerprint) => found.get(fingerprint));
    // A pooler may have switched this connection to a standby, which may not have the record yet.
    if (!records.every(Boolean)) await this.#pool.ping(deadlineMs);
    return records;
  }

  async #findSizes(
    fingerprints: readonly TokenFingerprint[],
    deadlineMs: number,
  ): Promise<(number | null | undefined)[]> {
    const { rows } = await this.#pool.query(SIZES, [uuidArray(fingerprints)], deadlineMs);
    const found = new Map<TokenFingerprint, number | null>();
    for (const { row, bytes } of rows) {
      found.set(tokenFingerprintOf(bytesOfBytea(row!)), Number(bytes) || null);
    }
    const sizes = fingerprints.map((fingerprint) => found.get(fingerprint));
    if (sizes.includes(undefined)) await this.#pool.ping(deadlineMs);
    return sizes;
  }
}

/** @param written what this call has written or tried to write */
function outcome(
  record: NewRecord,
  holders: ReadonlyMap<TokenFingerprint, Holder>,
  written: ReadonlyMap<TokenFingerprint, Sealed>,
): InsertOutcome | undefined {
  const {
    token_fingerprint: tokenFingerprint,
    value_fingerprint: valueFingerprint,
    time_to_live_s: timeToLiveS = null,
  } = record;
  const found = outcomeOf(holders.get(tokenFingerprint), valueFingerprint, timeToLiveS);
  if (typeof found !== 'object') return found;
  return found.sealed.equals(written.get(tokenFingerprint)!) ? 'stored' : found;
}

function isComplete(outcomes: (InsertOutcome | undefined)[]): outcomes is InsertOutcome[] {
  return !outcomes.includes(undefined);
}

/**
 * Tries again while the database is unavailable and the deadline allows. `attempt` must be
 * idempotent.
 */
export async function retried<T>(deadlineMs: number, attempt: () => Promise<T>): Promise<T> {
  const readOnlyDeadlineMs = performance.now() + READ_ONLY_PATIENCE_MS;
  for (let pauseMs = RETRY_PAUSE_MS; ; pauseMs *= 2) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      const nextMs = performance.now() + pauseMs;
      const isReadOnly = error instanceof ReadOnlyServer;
      if (nextMs >= deadlineMs || (isReadOnly && nextMs >= readOnlyDeadlineMs)) throw error;
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}
