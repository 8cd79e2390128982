import type { Durable, TokenFingerprint } from '../types.ts';
import { bytesOfBytea, uuidArray } from './bytea-array.ts';
import { retried } from './database-error.ts';
import type { Pool, Query } from './pool.ts';
import {
  byFingerprint,
  columnsWithoutValue,
  recordOf,
  UNSEALED,
  WAITS_FOR_STANDBY,
} from './record-sql.ts';

/** State of a token: with its value (expired or not), without its value, or never stored. */
export type TokenState = 'known' | 'forgotten' | 'unknown';

const COLUMNS = `${UNSEALED} as row, sealed = '' as is_removed`;
/** Waits on the worker of each row (Citus). A token without a row has none after a failover too. */
const FIND = `select ${COLUMNS}, ${WAITS_FOR_STANDBY} as waited_for
  from standin.records where token_fingerprint = any($1::uuid[])`;
const FIND_EXPIRED = `select ${COLUMNS} from standin.records where expires_at <= now() order by expires_at limit $1`;
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
 * Returns the state of each token before the call, in order. When it resolves, the known tokens are
 * forgotten. Their records stay, empty, so that a token never stands for another value
 * (docs/decisions/0011).
 * @param tokens undefined: a token that counts as unknown
 * @param isDryRun only returns the states
 */
export function forgetTokens(
  pool: Pool,
  tokens: readonly (TokenFingerprint | undefined)[],
  deadlineMs: number,
  isDryRun = false,
): Promise<Durable<TokenState[]>> {
  return retried(deadlineMs, async () => {
    const states = await pool.durably(deadlineMs, async (query) => {
      const known = uuidArray(tokens.filter((one) => one !== undefined));
      const rows = await find(query, FIND, [known]);
      // Also locks rows that are already forgotten.
      if (rows.length > 0 && !isDryRun) await query(FORGET, columns(rows));
      const byToken = new Map(rows.map((row) => [row.record.token_fingerprint, row.state]));
      return tokens.map((token) => (token && byToken.get(token)) ?? 'unknown');
    });
    // As in detokenize: a standby behind a pooler may not have the record yet.
    if (states.includes('unknown')) await pool.ping(deadlineMs);
    return states;
  });
}

/** Removes the values of up to `limit` expired records, the longest expired first. */
export async function removeExpired(pool: Pool, limit: number, deadlineMs: number) {
  const rows = await find(pool.queryUntil(deadlineMs), FIND_EXPIRED, [limit]);
  if (rows.length === 0) return { found: 0, removed: 0 };
  const { rows: counts } = await pool.query(EXPIRE, columns(rows), deadlineMs);
  return { found: rows.length, removed: Number(counts[0]!.count) };
}

/** The records are without `sealed`, which nobody reads here. */
async function find(query: Query, text: string, values: readonly unknown[]) {
  const { rows } = await query(text, values);
  return rows.map(({ row, is_removed: isRemoved }) => {
    const state: TokenState = isRemoved === 't' ? 'forgotten' : 'known';
    return { record: recordOf(bytesOfBytea(row!)), state };
  });
}

function columns(rows: Awaited<ReturnType<typeof find>>): Buffer[] {
  return columnsWithoutValue(rows.map(({ record }) => record).sort(byFingerprint));
}
