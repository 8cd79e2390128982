import type {
  InsertOutcome,
  Sealed,
  SealedRecord,
  TokenFingerprint,
  ValueFingerprint,
} from '../types.ts';
import { Batcher } from './batcher.ts';
import { byteaArray, bytesOfBytea, smallintArray, uuidArray } from './bytea-array.ts';
import { ReadOnlyServer, Unavailable } from './failure.ts';
import type { Pool } from './pool.ts';
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
/** The columns of a row as one bytea: one text to parse instead of four. */
const FINGERPRINTS = 'uuid_send(token_fingerprint) || uuid_send(value_fingerprint)';
const FIND_VALUE_FINGERPRINTS = `select ${FINGERPRINTS} as row from standin.records where token_fingerprint = any($1::uuid[])`;
const FIND = `select ${FINGERPRINTS} || int2send(key_version) || sealed as row from standin.records where token_fingerprint = any($1::uuid[])`;
/** Where they begin in it. */
const VALUE_FINGERPRINT = 16;
const KEY_VERSION = 32;
const SEALED = 34;

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
  readonly #inserts: Batcher<SealedRecord, InsertOutcome>;
  readonly #finds: Batcher<TokenFingerprint, SealedRecord | undefined>;
  readonly #holders: Batcher<TokenFingerprint, ValueFingerprint | undefined>;

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

  /** Durable when it resolves. Idempotent: a record that is there already is `stored`. */
  insert(records: readonly SealedRecord[]): Promise<readonly InsertOutcome[]> {
    return this.#inserts.submit(records);
  }

  find(fingerprints: readonly TokenFingerprint[]): Promise<readonly (SealedRecord | undefined)[]> {
    return this.#finds.submit(fingerprints);
  }

  /** The value fingerprint of each record that is there: cheaper than the records themselves. */
  holders(
    fingerprints: readonly TokenFingerprint[],
  ): Promise<readonly (ValueFingerprint | undefined)[]> {
    return this.#holders.submit(fingerprints);
  }

  async #insert(records: readonly SealedRecord[], deadline_ms: number): Promise<InsertOutcome[]> {
    const rows = sortedDistinct(records);
    const { rows: counts } = await this.#pool.query(
      INSERT,
      [
        uuidArray(rows.map((row) => row.token_fingerprint)),
        uuidArray(rows.map((row) => row.value_fingerprint)),
        smallintArray(rows.map((row) => row.key_version)),
        byteaArray(rows.map((row) => row.sealed)),
      ],
      deadline_ms,
    );
    const inserted = Number(counts[0]!.count);
    if (inserted === records.length) return records.map(() => 'stored');
    const holders =
      inserted === rows.length
        ? new Map(rows.map((row) => [row.token_fingerprint, row.value_fingerprint]))
        : await this.#findHolders(
            rows.map((row) => row.token_fingerprint),
            deadline_ms,
          );
    return records.map((record) => outcome(record, holders));
  }

  /**
   * Which value each token stands for. A row of a concurrent insert is visible only to a new
   * statement: read again.
   */
  async #findHolders(
    fingerprints: readonly TokenFingerprint[],
    deadline_ms: number,
  ): Promise<Map<TokenFingerprint, ValueFingerprint>> {
    const { rows } = await this.#pool.query(
      FIND_VALUE_FINGERPRINTS,
      [uuidArray(fingerprints)],
      deadline_ms,
    );
    const holders = new Map<TokenFingerprint, ValueFingerprint>();
    for (const { row } of rows) {
      const bytes = bytesOfBytea(row!);
      holders.set(tokenFingerprintOf(bytes), valueFingerprintOf(bytes));
    }
    return holders;
  }

  async #find(
    fingerprints: readonly TokenFingerprint[],
    deadline_ms: number,
  ): Promise<(SealedRecord | undefined)[]> {
    const { rows } = await this.#pool.query(FIND, [uuidArray(fingerprints)], deadline_ms);
    const found = new Map<TokenFingerprint, SealedRecord>();
    for (const { row } of rows) {
      const bytes = bytesOfBytea(row!);
      const token_fingerprint = tokenFingerprintOf(bytes);
      found.set(token_fingerprint, {
        token_fingerprint,
        value_fingerprint: valueFingerprintOf(bytes),
        key_version: bytes.readInt16BE(KEY_VERSION),
        sealed: bytes.subarray(SEALED) as Sealed,
      });
    }
    const records = fingerprints.map((fingerprint) => found.get(fingerprint));
    // A pooler may have changed servers under this connection, and a standby may not know it yet.
    if (records.includes(undefined)) await ping(this.#pool, deadline_ms);
    return records;
  }
}

function tokenFingerprintOf(row: Buffer): TokenFingerprint {
  return row.toString('latin1', 0, VALUE_FINGERPRINT) as TokenFingerprint;
}

function valueFingerprintOf(row: Buffer): ValueFingerprint {
  return row.toString('latin1', VALUE_FINGERPRINT, KEY_VERSION) as ValueFingerprint;
}

/**
 * In the order of their fingerprints, so that two nodes never wait for each other; the first of
 * equals only.
 */
function sortedDistinct(records: readonly SealedRecord[]): SealedRecord[] {
  const sorted = records.toSorted((a, b) =>
    a.token_fingerprint < b.token_fingerprint
      ? -1
      : a.token_fingerprint > b.token_fingerprint
        ? 1
        : 0,
  );
  return sorted.filter(
    (row, i) => i === 0 || row.token_fingerprint !== sorted[i - 1]!.token_fingerprint,
  );
}

function outcome(
  record: SealedRecord,
  holders: ReadonlyMap<TokenFingerprint, ValueFingerprint>,
): InsertOutcome {
  const holder = holders.get(record.token_fingerprint);
  // Deleted between the two statements: the insert is tried again.
  if (holder === undefined) throw new Unavailable(new Error('a record went away'));
  return holder === record.value_fingerprint ? 'stored' : 'collision';
}

/**
 * Tries again while the database is unavailable and the deadline allows: both statements are
 * idempotent.
 */
async function retried<T>(deadline_ms: number, attempt: () => Promise<T>): Promise<T> {
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
