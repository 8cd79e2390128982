import type { SealedRecord, TokenFingerprint, ValueFingerprint } from '../types.ts';
import { bytesOfBytea, uuidArray } from './bytea-array.ts';
import type { Query } from './pool.ts';
import { recordOf, SEALED, UNSEALED } from './record-row.ts';
import { HAS_STANDBY } from './record-writes.ts';

/** What is there of a token. */
export interface Holder {
  /** Its `sealed` is empty when the value was removed. */
  readonly record: SealedRecord;
  /** How long it still is, by the clock of the database: null for ever, 0 when it was removed. */
  readonly left_s: number | null;
}

/**
 * What becomes of a record for this value of which that is there already: the record that is there
 * does for it, or stands for another value; undefined: it has to be written.
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

/** Only a server that has loaded Citus knows its settings. */
const HAS_CITUS = "current_setting('citus.shard_count', true) is not null";
const MESSAGE = "pg_logical_emit_message(true, 'standin', '')::text";
/**
 * "There already" must be as durable as "written now". The commit of a statement that only reads
 * waits for no standby, so with one configured this statement writes a message to the WAL: its
 * commit then waits until the standby has everything from before. Evaluated once, if at all. Citus
 * would evaluate it on the coordinator alone: there it only tells that ON_CITUS has to be asked.
 */
const ONCE = `(select case when ${HAS_CITUS} then 'citus'
    when ${HAS_STANDBY} then ${MESSAGE} end)`;
/** For each row, so on the worker that has it: the commit there waits for its own standby. */
const EACH_ROW = `case when ${HAS_STANDBY} then ${MESSAGE} end`;
const ON_ONE_SERVER = findingWith(ONCE);
const ON_CITUS = findingWith(EACH_ROW);

/** Finds what each token stands for, as durable as what is written. */
export class HolderFinder {
  #statement = ON_ONE_SERVER;

  /** A row of a concurrent insert is visible only to a new statement than that insert. */
  async find(
    query: Query,
    fingerprints: readonly TokenFingerprint[],
  ): Promise<Map<TokenFingerprint, Holder>> {
    const parameters = [uuidArray(fingerprints)];
    let { rows } = await query(this.#statement, parameters);
    if (rows[0]?.waited_for === 'citus') {
      // Kept from then on: on one server that statement only costs more.
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
