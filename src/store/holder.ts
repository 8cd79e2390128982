import type { SealedRecord, TokenFingerprint, ValueFingerprint } from '../types.ts';
import { bytesOfBytea, uuidArray } from './bytea-array.ts';
import type { Query } from './pool.ts';
import { recordOf, SEALED, UNSEALED } from './record-row.ts';
import { HAS_STANDBY } from './record-writes.ts';

/** The row of a token. */
export interface Holder {
  /** `sealed` is empty after the value was removed. */
  readonly record: SealedRecord;
  /** Seconds until the record expires, by the clock of the database. null: never; 0: removed. */
  readonly left_s: number | null;
}

/**
 * Decides what to do with a new record when its token may have a row. A SealedRecord: the existing
 * record holds this value for long enough. `collision`: the token stands for another value.
 * undefined: the record must be written.
 * @param timeToLiveS null: for ever
 */
export function outcomeOf(
  holder: Holder | undefined,
  valueFingerprint: ValueFingerprint,
  timeToLiveS: number | null,
): SealedRecord | 'collision' | undefined {
  if (holder === undefined) return undefined;
  const { record, left_s: leftS } = holder;
  if (record.value_fingerprint !== valueFingerprint) return 'collision';
  const isEnough = leftS === null || (timeToLiveS !== null && leftS >= timeToLiveS);
  return isEnough ? record : undefined;
}

/** A server has this setting only when Citus is loaded. */
const HAS_CITUS = "current_setting('citus.shard_count', true) is not null";
const MESSAGE = "pg_logical_emit_message(true, 'standin', '')::text";
/**
 * "Already stored" must be as durable as "written now". But a statement that only reads waits for
 * no standby. So, with a standby configured, this statement writes a message to the WAL: its commit
 * waits until the standby has everything up to it. PostgreSQL evaluates the subquery at most once.
 * Citus would do so only on the coordinator, so there the answer asks for ON_CITUS.
 */
const ONCE = `(select case when ${HAS_CITUS} then 'citus'
    when ${HAS_STANDBY} then ${MESSAGE} end)`;
/**
 * Evaluated for each row, so on the worker that has the row. Its commit waits for the worker's
 * standby.
 */
const EACH_ROW = `case when ${HAS_STANDBY} then ${MESSAGE} end`;
const ON_ONE_SERVER = findingWith(ONCE);
const ON_CITUS = findingWith(EACH_ROW);

/** Finds the row of each token. A row that was found is as durable as a row that was written. */
export class HolderFinder {
  #statement = ON_ONE_SERVER;

  /**
   * Call it as a statement of its own, after the insert: the insert cannot see the rows of a
   * concurrent insert.
   */
  async find(
    query: Query,
    fingerprints: readonly TokenFingerprint[],
  ): Promise<Map<TokenFingerprint, Holder>> {
    const parameters = [uuidArray(fingerprints)];
    let { rows } = await query(this.#statement, parameters);
    if (rows[0]?.waited_for === 'citus') {
      // Not used from the start: on a single server this statement only costs more.
      this.#statement = ON_CITUS;
      ({ rows } = await query(ON_CITUS, parameters));
    }
    const holders = new Map<TokenFingerprint, Holder>();
    for (const { row, left_s: leftS } of rows) {
      const record = recordOf(bytesOfBytea(row!));
      const left = leftS == null ? null : Number(leftS);
      holders.set(record.token_fingerprint, { record, left_s: left });
    }
    return holders;
  }
}

function findingWith(waitedFor: string): string {
  return `select ${UNSEALED} || ${SEALED} as row,
      case when sealed = '' then 0 else extract(epoch from expires_at - now()) end as left_s,
      ${waitedFor} as waited_for
    from standin.records as there where token_fingerprint = any($1::uuid[])`;
}
