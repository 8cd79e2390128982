import { Batcher } from '../batcher.ts';
import { Unavailable } from '../errors.ts';
import { COMMAND_TIMEOUT_MS } from '../timeouts.ts';
import type { InsertOutcome, SealedRecord, TokenFingerprint, ValueFingerprint } from '../types.ts';
import { bytesOfBytea, uuidArray } from './bytea-array.ts';
import { retried } from './database-error.ts';
import type { Pool, Query, Row } from './pool.ts';
import {
  FINGERPRINTS,
  hasValue,
  insertNew,
  keep,
  type NewRecord,
  ON_CITUS,
  ON_ONE_SERVER,
  type Replacement,
  recordOf,
  replace,
  SEALED,
  type StoredRecord,
  sortedDistinct,
  supersede,
  tokenFingerprintOf,
  UNSEALED,
} from './record-sql.ts';

interface RecordsOptions {
  /** Of calls without a deadline. */
  readonly timeoutMs?: number;
  readonly onBatch?: (statement: 'insert' | 'find', records: number) => void;
}

/** The outcome for a record; a StoredRecord: the row that is there instead. */
type Written = StoredRecord | 'stored' | 'key_retired';

/** An expired record counts as removed, even before its value is removed. */
const FIND = `select ${UNSEALED} || case when expires_at <= now() then '' else ${SEALED} end as row
  from standin.records as there where token_fingerprint = any($1::uuid[])`;
/** PostgreSQL returns the length of a large value without reading the value. */
const SIZES = `select ${FINGERPRINTS} as row,
    case when expires_at <= now() then 0 else octet_length(sealed) end as bytes
  from standin.records where token_fingerprint = any($1::uuid[])`;

const MAX_BATCH_RECORDS = 1_000;
/** Sealed bytes. The driver holds the text of a batch, twice as long, and its bytes at once. */
const MAX_BATCH_BYTES = 2_097_152;
const MAX_WAITING_RECORDS = 100_000;
const SLOTS = 2;

/**
 * The records of the vault. Concurrent calls share statements (group commit). Keeps no record in
 * memory.
 */
export class RecordStore {
  readonly #pool: Pool;
  readonly #inserts: Batcher<NewRecord, InsertOutcome>;
  readonly #finds: Batcher<TokenFingerprint, SealedRecord | null | undefined>;
  readonly #sizes: Batcher<TokenFingerprint, number | null | undefined>;
  readonly #durableFinds: Batcher<TokenFingerprint, StoredRecord | undefined>;
  #findStored = ON_ONE_SERVER;
  /** As of the last insert. */
  #hasStandby = false;

  constructor(pool: Pool, { timeoutMs = COMMAND_TIMEOUT_MS, onBatch }: RecordsOptions = {}) {
    this.#pool = pool;
    const batched = <Item, Result>(
      statement: 'insert' | 'find',
      run: (items: readonly Item[], deadlineMs: number) => Promise<Result[]>,
    ) =>
      new Batcher<Item, Result>({
        slots: SLOTS,
        maxBatchItems: MAX_BATCH_RECORDS,
        maxBatchBytes: MAX_BATCH_BYTES,
        maxWaitingItems: MAX_WAITING_RECORDS,
        timeoutMs,
        onBatch: (records) => onBatch?.(statement, records),
        run: (items, deadlineMs) => retried(deadlineMs, () => run(items, deadlineMs)),
      });
    this.#inserts = batched('insert', (records, deadlineMs) => this.#insert(records, deadlineMs));
    this.#finds = batched('find', (tokens, deadlineMs) =>
      this.#read(FIND, tokens, (row) => (hasValue(row) ? recordOf(row) : null), deadlineMs),
    );
    this.#sizes = batched('find', (tokens, deadlineMs) =>
      this.#read(SIZES, tokens, (_, { bytes }) => Number(bytes) || null, deadlineMs),
    );
    this.#durableFinds = batched('find', async (tokens, deadlineMs) => {
      const rows = tokens.map((token) => ({ token_fingerprint: token }));
      const found = await this.#findRows(this.#pool.queryUntil(deadlineMs), rows);
      return tokens.map((token) => found.get(token));
    });
  }

  /**
   * Inserts records. When it resolves, each record is durable, on a synchronous standby too,
   * whether it was written or found. Idempotent: returns the existing record of a value. The
   * longest time to live ever asked for wins.
   * @param deadlineMs a performance.now() time, as for all statements below
   */
  insert(records: readonly NewRecord[], deadlineMs?: number): Promise<readonly InsertOutcome[]> {
    let bytes = 0;
    for (const { sealed } of records) bytes += sealed.length;
    return this.#inserts.submit(records, bytes, deadlineMs);
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
  findDurable(
    fingerprints: readonly TokenFingerprint[],
    deadlineMs?: number,
  ): Promise<readonly (StoredRecord | undefined)[]> {
    return this.#durableFinds.submit(fingerprints, 0, deadlineMs);
  }

  /** Inserts records that have no row yet. Changes no row, not even a removed one. */
  insertMissing(records: readonly NewRecord[], deadlineMs: number): Promise<readonly Written[]> {
    return this.#written(records, deadlineMs, insertNew);
  }

  /**
   * Puts records in the place of aliases, each while it is as it was read: nobody was given its
   * token.
   */
  supersede(
    old: readonly SealedRecord[],
    records: readonly NewRecord[],
    deadlineMs: number,
  ): Promise<readonly Written[]> {
    return this.#written(records, deadlineMs, (query, rows) => supersede(query, rows, old), old);
  }

  #written(
    records: readonly NewRecord[],
    deadlineMs: number,
    write: (query: Query, rows: readonly NewRecord[]) => Promise<unknown>,
    old: readonly SealedRecord[] = [],
  ): Promise<readonly Written[]> {
    return retried(deadlineMs, () =>
      this.#pool.transaction(deadlineMs, async (query) => {
        const rows = sortedDistinct(records);
        await write(query, rows);
        const found = await this.#findRows(query, rows);
        return records.map(({ token_fingerprint: token, sealed }, i) => {
          const row = found.get(token);
          if (row?.record.sealed.equals(sealed)) return 'stored';
          return row === undefined || old[i]?.sealed.equals(row.record.sealed)
            ? 'key_retired'
            : row;
        });
      }),
    );
  }

  /** If commits wait for a standby, all statements share one transaction, and so one wait. */
  #insert(records: readonly NewRecord[], deadlineMs: number): Promise<InsertOutcome[]> {
    const work = (query: Query) => this.#store(query, records);
    if (this.#hasStandby) return this.#pool.transaction(deadlineMs, work);
    return work(this.#pool.queryUntil(deadlineMs));
  }

  async #store(query: Query, records: readonly NewRecord[]): Promise<InsertOutcome[]> {
    const rows = sortedDistinct(records);
    const { count, hasStandby } = await insertNew(query, rows);
    this.#hasStandby = hasStandby;
    if (count === records.length) return records.map(() => 'stored');
    const stored =
      count === rows.length
        ? new Map(rows.map((record) => [record.token_fingerprint, { record, leftS: null }]))
        : await this.#findRows(query, rows);
    const outcomes = outcomesOf(records, stored, rows);
    return isComplete(outcomes) ? outcomes : this.#keepMissing(query, records, outcomes);
  }

  /** Writes the records that have no outcome yet. */
  async #keepMissing(
    query: Query,
    records: readonly NewRecord[],
    outcomes: readonly (InsertOutcome | undefined)[],
  ): Promise<InsertOutcome[]> {
    const rows = sortedDistinct(records.filter((_, i) => outcomes[i] === undefined));
    const { count, openVersions } = await keep(query, rows);
    if (count === rows.length) return outcomes.map((outcome) => outcome ?? 'stored');
    // Another insert or a removal was faster, or the key version is closed.
    const second = outcomesOf(records, await this.#findRows(query, rows), rows);
    const kept = records.map((record, i) => {
      const outcome = outcomes[i] ?? second[i];
      return outcome ?? (openVersions.has(record.key_version) ? undefined : 'key_retired');
    });
    if (isComplete(kept)) return kept;
    throw new Unavailable(new Error('a record went away'));
  }

  /**
   * The row of each token, as durable as a row that was written. A statement of its own, after the
   * insert: the insert cannot see the rows of a concurrent insert.
   */
  async #findRows(
    query: Query,
    tokens: readonly Pick<SealedRecord, 'token_fingerprint'>[],
  ): Promise<Map<TokenFingerprint, StoredRecord>> {
    const parameters = [uuidArray(tokens.map((one) => one.token_fingerprint))];
    let { rows } = await query(this.#findStored, parameters);
    if (rows[0]?.waited_for === 'citus') {
      // Not used from the start: on a single server this statement only costs more.
      this.#findStored = ON_CITUS;
      ({ rows } = await query(ON_CITUS, parameters));
    }
    const found = new Map<TokenFingerprint, StoredRecord>();
    for (const { row, left_s: leftS } of rows) {
      const record = recordOf(bytesOfBytea(row!));
      found.set(record.token_fingerprint, { record, leftS: leftS == null ? null : Number(leftS) });
    }
    return found;
  }

  /**
   * Replaces records that do not open with fresh ones. A record that changed meanwhile stays, and
   * so does a record whose new key version is closed: insert again to see its outcome.
   */
  mend(replacements: readonly Replacement[], deadlineMs: number): Promise<number> {
    return retried(deadlineMs, () => replace(this.#pool.queryUntil(deadlineMs), replacements));
  }

  /** @param resultOf what a row stands for; null: removed or expired */
  async #read<Result>(
    text: string,
    fingerprints: readonly TokenFingerprint[],
    resultOf: (bytes: Buffer, row: Row) => Result | null,
    deadlineMs: number,
  ): Promise<(Result | null | undefined)[]> {
    const { rows } = await this.#pool.query(text, [uuidArray(fingerprints)], deadlineMs);
    const found = new Map<TokenFingerprint, Result | null>();
    for (const row of rows) {
      const bytes = bytesOfBytea(row.row!);
      found.set(tokenFingerprintOf(bytes), resultOf(bytes, row));
    }
    const results = fingerprints.map((fingerprint) => found.get(fingerprint));
    // A pooler may have switched this connection to a standby, which may not have the record yet.
    if (!results.every(Boolean)) await this.#pool.ping(deadlineMs);
    return results;
  }
}

/** @param written what this call has written or tried to write */
function outcomesOf(
  records: readonly NewRecord[],
  stored: ReadonlyMap<TokenFingerprint, StoredRecord>,
  written: readonly NewRecord[],
): (InsertOutcome | undefined)[] {
  const own = new Map(written.map((row) => [row.token_fingerprint, row.sealed]));
  return records.map((record) => {
    const { token_fingerprint: token, value_fingerprint: value, time_to_live_s: leastS } = record;
    const found = outcomeOf(stored.get(token), value, leastS ?? null);
    return typeof found === 'object' && found.sealed.equals(own.get(token)!) ? 'stored' : found;
  });
}

/**
 * Decides what to do with a new record when its token may have a row. A SealedRecord: the existing
 * record holds this value for long enough. `collision`: the token stands for another value.
 * undefined: the record must be written.
 * @param timeToLiveS null: for ever
 */
export function outcomeOf(
  stored: StoredRecord | undefined,
  valueFingerprint: ValueFingerprint,
  timeToLiveS: number | null,
): SealedRecord | 'collision' | undefined {
  if (stored === undefined) return undefined;
  const { record, leftS } = stored;
  if (record.value_fingerprint !== valueFingerprint) return 'collision';
  const isEnough = leftS === null || (timeToLiveS !== null && leftS >= timeToLiveS);
  return isEnough ? record : undefined;
}

function isComplete(outcomes: (InsertOutcome | undefined)[]): outcomes is InsertOutcome[] {
  return !outcomes.includes(undefined);
}
