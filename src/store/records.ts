import { Batcher } from '../batcher.ts';
import { Unavailable } from '../errors.ts';
import type { InsertOutcome, Sealed, SealedRecord, TokenFingerprint } from '../types.ts';
import { bytesOfBytea, uuidArray } from './bytea-array.ts';
import { ReadOnlyServer } from './database-error.ts';
import { type Holder, HolderFinder, outcomeOf } from './holder.ts';
import { type NewRecord, sortedDistinct } from './new-records.ts';
import type { Pool, Query } from './pool.ts';
import { hasValue, recordOf, SEALED, tokenFingerprintOf, UNSEALED } from './record-row.ts';
import { findSizes } from './record-sizes.ts';
import type { Replacement } from './record-walk.ts';
import { insertNew, keep, mend } from './record-writes.ts';

export interface RecordsOptions {
  readonly patience_ms: number;
  readonly onBatch: (statement: 'insert' | 'find', records: number) => void;
}

/** A record that has expired is as one that was removed, before somebody removes it. */
const FIND = `select ${UNSEALED} || case when expires_at <= now() then '' else ${SEALED} end as row
  from standin.records as there where token_fingerprint = any($1::uuid[])`;

const MAX_BATCH_RECORDS = 1_000;
/** Of what is sealed; the driver has the text of a batch, twice as long, and its bytes at once. */
const MAX_BATCH_BYTES = 2_097_152;
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
  readonly #patience_ms: number;
  readonly #inserts: Batcher<NewRecord, InsertOutcome>;
  readonly #finds: Batcher<TokenFingerprint, SealedRecord | null | undefined>;
  readonly #sizes: Batcher<TokenFingerprint, number | null | undefined>;
  readonly #holders: Batcher<TokenFingerprint, Holder | undefined>;
  readonly #finder = new HolderFinder();
  /** As the last insert has seen it. */
  #has_standby = false;

  constructor(pool: Pool, options: RecordsOptions) {
    this.#pool = pool;
    this.#patience_ms = options.patience_ms;
    const bounds = {
      lanes: LANES,
      max_batch_items: MAX_BATCH_RECORDS,
      max_batch_bytes: MAX_BATCH_BYTES,
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
    this.#sizes = new Batcher({
      ...bounds,
      onBatch: countFind,
      run: (fingerprints, deadline_ms) =>
        retried(deadline_ms, () => findSizes(pool, fingerprints, deadline_ms)),
    });
    this.#holders = new Batcher({
      ...bounds,
      onBatch: countFind,
      run: (fingerprints, deadline_ms) =>
        retried(deadline_ms, async () => {
          const query: Query = (text, values) => this.#pool.query(text, values ?? [], deadline_ms);
          const holders = await this.#finder.find(query, fingerprints);
          return fingerprints.map((fingerprint) => holders.get(fingerprint));
        }),
    });
  }

  /**
   * What is written or found is durable when it resolves, on a synchronous standby, too.
   * Idempotent: a record that is there already is given back.
   * @param time_to_live_s how long they are to be there at least, from this call on, by the clock
   * of the database; null: for ever. The longest that was ever asked for counts.
   * @param deadline_ms a performance.now() time, as for all statements below
   */
  insert(
    records: readonly SealedRecord[],
    time_to_live_s: number | null = null,
    deadline_ms?: number,
  ): Promise<readonly InsertOutcome[]> {
    let bytes = 0;
    for (const { sealed } of records) bytes += sealed.length;
    return this.#inserts.submit(
      time_to_live_s === null ? records : records.map((record) => ({ ...record, time_to_live_s })),
      bytes,
      deadline_ms,
    );
  }

  /**
   * null: it was removed or has expired; undefined: there never was one.
   * @param bytes what the records weigh at most, as far as it is known
   */
  find(
    fingerprints: readonly TokenFingerprint[],
    bytes = 0,
    deadline_ms?: number,
  ): Promise<readonly (SealedRecord | null | undefined)[]> {
    return this.#finds.submit(fingerprints, bytes, deadline_ms);
  }

  /** How many bytes are sealed in each record that `find` would find: nothing large is read. */
  sizes(
    fingerprints: readonly TokenFingerprint[],
    deadline_ms?: number,
  ): Promise<readonly (number | null | undefined)[]> {
    return this.#sizes.submit(fingerprints, 0, deadline_ms);
  }

  /** What is there of each token, removed or not; as durable as what `insert` finds. */
  holders(
    fingerprints: readonly TokenFingerprint[],
    deadline_ms?: number,
  ): Promise<readonly (Holder | undefined)[]> {
    return this.#holders.submit(fingerprints, 0, deadline_ms);
  }

  /** Where commits wait for a standby, all statements share one. */
  #insert(records: readonly NewRecord[], deadline_ms: number): Promise<InsertOutcome[]> {
    const work = (query: Query) => this.#store(query, records);
    if (this.#has_standby) return this.#pool.transaction(deadline_ms, work);
    return work((text, values) => this.#pool.query(text, values ?? [], deadline_ms));
  }

  async #store(query: Query, records: readonly NewRecord[]): Promise<InsertOutcome[]> {
    const rows = sortedDistinct(records);
    const { count, has_standby } = await insertNew(query, rows);
    this.#has_standby = has_standby;
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

  /** For the records that have no outcome yet. */
  async #keepMissing(
    query: Query,
    records: readonly NewRecord[],
    outcomes: readonly (InsertOutcome | undefined)[],
  ): Promise<InsertOutcome[]> {
    const missing = sortedDistinct(records.filter((_, i) => outcomes[i] === undefined));
    const { count, open_versions } = await keep(query, missing);
    if (count === missing.length) return outcomes.map((outcome) => outcome ?? 'stored');
    // Another was faster, a removal was, or the key version takes no records any more.
    const holders = await this.#finder.find(
      query,
      missing.map((row) => row.token_fingerprint),
    );
    const written = new Map(missing.map((row) => [row.token_fingerprint, row.sealed]));
    const kept = records.map((record, i) => {
      const is_open = open_versions.has(record.key_version);
      return (
        outcomes[i] ?? outcome(record, holders, written) ?? (is_open ? undefined : 'key_retired')
      );
    });
    if (isComplete(kept)) return kept;
    throw new Unavailable(new Error('a record went away'));
  }

  /**
   * Puts fresh records in the place of those that were found and do not open. One that was changed
   * meanwhile, or whose key version takes no records any more, stays: insert again to see.
   */
  mend(
    replacements: readonly Replacement[],
    deadline_ms = performance.now() + this.#patience_ms,
  ): Promise<number> {
    return retried(deadline_ms, () =>
      mend((text, values) => this.#pool.query(text, values ?? [], deadline_ms), replacements),
    );
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
    if (!records.every(Boolean)) await this.#pool.ping(deadline_ms);
    return records;
  }
}

/** @param written what this call has written, or tried to */
function outcome(
  record: NewRecord,
  holders: ReadonlyMap<TokenFingerprint, Holder>,
  written: ReadonlyMap<TokenFingerprint, Sealed>,
): InsertOutcome | undefined {
  const { token_fingerprint, value_fingerprint, time_to_live_s = null } = record;
  const found = outcomeOf(holders.get(token_fingerprint), value_fingerprint, time_to_live_s);
  if (typeof found !== 'object') return found;
  return found.sealed.equals(written.get(token_fingerprint)!) ? 'stored' : found;
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
