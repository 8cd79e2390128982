import type { SealedRecord, TokenFingerprint } from '../types.ts';
import { bytesOfBytea } from './bytea-array.ts';
import type { Pool, Row } from './pool.ts';
import {
  hasValue,
  type Replacement,
  recordOf,
  replace,
  SEALED,
  tokenFingerprintOf,
  WAITS_FOR_STANDBY,
} from './record-sql.ts';
import { VAULT_LOCK } from './wrapped-keys.ts';

/** Records in one page: at most 64 MiB of the largest values. */
export const PAGE_RECORDS = 1_000;
/**
 * Pages by primary key bound each statement, whatever it finds. A record that the walk leaves out
 * returns only its fingerprint.
 */
const NEXT = pageOf('octet_length(sealed) = 0');
/** Waits for the standby: "nothing is left to reseal" must hold after a failover. */
const NEXT_WITHOUT = pageOf(
  'octet_length(sealed) = 0 or key_version = $3::smallint',
  `, ${WAITS_FOR_STANDBY} as waited_for`,
);

function pageOf(isLeftOut: string, more = ''): string {
  return `select uuid_send(token_fingerprint) || case when ${isLeftOut} then ''
    else uuid_send(value_fingerprint) || int2send(key_version) || ${SEALED} end as row,
    extract(epoch from expires_at) as expires_s, expires_at <= now() as is_expired${more}
  from standin.records as there where token_fingerprint >= $1::uuid
  order by token_fingerprint limit $2`;
}

/** The lowest possible fingerprint. */
export const FIRST_RECORD = fingerprintOf('0'.repeat(32));

export interface WalkedRecord extends SealedRecord {
  /** undefined: never. */
  readonly expires_at?: Date;
  /** By the clock of the database. */
  readonly isExpired?: boolean;
}

/**
 * The records of the vault from a fingerprint on, in order, while the service runs. Records without
 * a value are left out, but counted in `seen`. `next` is where the next page begins; undefined:
 * this page was the last.
 * @param without leave out records sealed with this key version; a failover keeps that they are
 */
export async function readPage(
  pool: Pool,
  from: TokenFingerprint,
  without: number | undefined,
  deadlineMs: number,
) {
  const values = [hexOf(from), PAGE_RECORDS];
  const { rows } =
    without === undefined
      ? await pool.query(NEXT, values, deadlineMs)
      : await pool.query(NEXT_WITHOUT, [...values, without], deadlineMs);
  const all = rows.map(({ row }) => bytesOfBytea(row!));
  const last = rows.length < PAGE_RECORDS ? undefined : all.at(-1);
  return {
    records: all.flatMap((row, i) => (hasValue(row) ? [walked(row, rows[i]!)] : [])),
    seen: all.length,
    next: last && successor(tokenFingerprintOf(last)),
  };
}

/**
 * Replaces each record that has not changed, and returns how many. Returns undefined and changes
 * nothing when `keyVersion` is no longer the newest DEK version, because it may then be retired.
 */
export async function replaceWalked(
  pool: Pool,
  replacements: readonly Replacement[],
  keyVersion: number,
  deadlineMs: number,
): Promise<number | undefined> {
  return pool.durably(deadlineMs, async (query) => {
    // A shared lock: `locked` of the keyring waits for this batch, but batches do not wait for
    // each other.
    await query('select pg_advisory_xact_lock_shared($1::bigint)', [VAULT_LOCK]);
    const { rows: newest } = await query(
      "select max(version) as version from standin.keyring where purpose = 'dek'",
    );
    if (Number(newest[0]!.version) !== keyVersion) return undefined;
    return replace(query, replacements);
  });
}

function walked(row: Buffer, { expires_s: expiresS, is_expired: isExpired }: Row): WalkedRecord {
  const record = recordOf(row);
  if (expiresS == null) return record;
  const expiresAt = new Date(1_000 * Number(expiresS));
  return { ...record, expires_at: expiresAt, isExpired: isExpired === 't' };
}

/** 32 hex digits: how messages name a record. */
export function hexOf(fingerprint: TokenFingerprint): string {
  return Buffer.from(fingerprint, 'latin1').toString('hex');
}

/** @param digits 32 hex digits */
export function fingerprintOf(digits: string): TokenFingerprint {
  return Buffer.from(digits, 'hex').toString('latin1') as TokenFingerprint;
}

/** The next fingerprint; undefined after the highest. */
function successor(fingerprint: TokenFingerprint): TokenFingerprint | undefined {
  const next = BigInt(`0x${hexOf(fingerprint)}`) + 1n;
  const digits = next.toString(16).padStart(32, '0');
  return digits.length > 32 ? undefined : fingerprintOf(digits);
}
