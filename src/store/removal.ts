import type { SealedRecord, TokenFingerprint } from '../types.ts';
import { bytesOfBytea, uuidArray } from './bytea-array.ts';
import { retried } from './database-error.ts';
import type { Pool } from './pool.ts';
import { byFingerprint, columnsWithoutValue, recordOf, UNSEALED } from './record-sql.ts';

/** State of a token: with its value (expired or not), without its value, or never stored. */
export type TokenState = 'known' | 'forgotten' | 'unknown';

interface Row {
  /** Without `sealed`, which nobody reads here. */
  readonly record: SealedRecord;
  readonly isRemoved: boolean;
}

const COLUMNS = `${UNSEALED} as row,
  sealed = '' as is_removed from standin.records`;
const FIND = `select ${COLUMNS} where token_fingerprint = any($1::uuid[])`;
const FIND_EXPIRED = `select ${COLUMNS} where expires_at <= now() order by expires_at limit $1`;
/**
 * An upsert instead of an update: it locks rows in the given order, like the inserts of records, so
 * the two cannot deadlock.
 */
const REMOVE = `insert into standin.records as there
    (token_fingerprint, value_fingerprint, key_version, sealed, expires_at)
  select token, value, version, ''::bytea, now()
  from unnest($1::uuid[], $2::uuid[], $3::smallint[]) as old (token, value, version)
  on conflict (token_fingerprint) do update set sealed = excluded.sealed, expires_at = null`;
const FORGET = `${REMOVE} where there.sealed is distinct from ''`;
const EXPIRE = `with removed as (
  ${REMOVE} where there.expires_at <= excluded.expires_at returning 1
) select count(*) as count from removed`;

/**
 * Removes values from the vault. Their records stay, empty, so that a token never stands for
 * another value (docs/decisions/0011).
 */
export class RemovalStore {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /**
   * Returns the state of each token before the call, in order. When it resolves, the known tokens
   * are forgotten.
   */
  async forget(
    fingerprints: readonly TokenFingerprint[],
    deadlineMs: number,
  ): Promise<TokenState[]> {
    return retried(deadlineMs, async () => {
      const rows = await this.#look(fingerprints, deadlineMs);
      // Also locks rows that are already forgotten. So this commit waits for a synchronous standby,
      // which may not have the earlier removal yet.
      if (rows.length > 0) await this.#pool.query(FORGET, columns(rows), deadlineMs);
      return statesOf(fingerprints, rows);
    });
  }

  /** The state of each token, in order. */
  async look(fingerprints: readonly TokenFingerprint[], deadlineMs: number): Promise<TokenState[]> {
    return retried(deadlineMs, async () =>
      statesOf(fingerprints, await this.#look(fingerprints, deadlineMs)),
    );
  }

  /** Removes the values of up to `limit` expired records, the longest expired first. */
  async removeExpired(
    limit: number,
    deadlineMs: number,
  ): Promise<{ readonly found: number; readonly removed: number }> {
    const rows = await this.#find(FIND_EXPIRED, [limit], deadlineMs);
    if (rows.length === 0) return { found: 0, removed: 0 };
    const { rows: counts } = await this.#pool.query(EXPIRE, columns(rows), deadlineMs);
    return { found: rows.length, removed: Number(counts[0]!.count) };
  }

  async #look(fingerprints: readonly TokenFingerprint[], deadlineMs: number): Promise<Row[]> {
    const rows = await this.#find(FIND, [uuidArray(fingerprints)], deadlineMs);
    // As in detokenize: a standby behind a pooler may not have the record yet.
    if (rows.length < new Set(fingerprints).size) await this.#pool.ping(deadlineMs);
    return rows;
  }

  async #find(text: string, values: readonly unknown[], deadlineMs: number): Promise<Row[]> {
    const { rows } = await this.#pool.query(text, values, deadlineMs);
    return rows.map(({ row, is_removed: isRemoved }) => ({
      record: recordOf(bytesOfBytea(row!)),
      isRemoved: isRemoved === 't',
    }));
  }
}

function statesOf(fingerprints: readonly TokenFingerprint[], rows: readonly Row[]): TokenState[] {
  const byToken = new Map(rows.map((row) => [row.record.token_fingerprint, row]));
  return fingerprints.map((fingerprint) => {
    const row = byToken.get(fingerprint);
    if (row === undefined) return 'unknown';
    return row.isRemoved ? 'forgotten' : 'known';
  });
}

function columns(rows: readonly Row[]): Buffer[] {
  return columnsWithoutValue(rows.map(({ record }) => record).sort(byFingerprint));
}
