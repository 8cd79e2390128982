import type { SealedRecord, TokenFingerprint } from '../types.ts';
import { byteaArray, bytesOfBytea, uuidArray } from './bytea-array.ts';
import { VAULT_LOCK } from './keyring.ts';
import type { Pool } from './pool.ts';
import { hasValue, recordOf, SEALED, tokenFingerprintOf } from './record-row.ts';

/** Records of one window: 64 MiB of the largest values. */
const WINDOW_RECORDS = 1_000;
/**
 * By the primary key, in windows: each statement has a bound, whatever it finds. A record that the
 * walk is not for comes as its fingerprint alone.
 */
const NEXT = `select uuid_send(token_fingerprint) ||
    case when key_version = $2::smallint or octet_length(sealed) = 0 then ''
    else uuid_send(value_fingerprint) || int2send(key_version) || ${SEALED} end as row
  from standin.records as there where token_fingerprint >= $1::uuid
  order by token_fingerprint limit $3`;
/** No version of a key: nothing is left out for it. */
const NONE = -1;

/**
 * Only where the record is still what was opened. Counts rows that were changed, as on insert.
 */
const REPLACE = `with changed as (
  update standin.records as record set key_version = $4::smallint, sealed = fresh.sealed
  from unnest($1::uuid[], $2::bytea[], $3::bytea[]) as fresh (token_fingerprint, old_sealed, sealed)
  where record.token_fingerprint = fresh.token_fingerprint and record.sealed = fresh.old_sealed
  returning 1
) select count(*) as count from changed`;

/** Every record is at this fingerprint or after it. */
export const FIRST_RECORD = fingerprintOf('0'.repeat(32));

export interface Window {
  readonly records: readonly SealedRecord[];
  /** Records that are there, also those that were left out. */
  readonly seen: number;
  /** Where the next window begins; undefined: this was the last. */
  readonly next: TokenFingerprint | undefined;
}

/** A record and what is to be in its place. */
export interface Replacement {
  readonly old: SealedRecord;
  readonly fresh: SealedRecord;
}

/** Goes over all records of the vault, online. */
export class RecordWalk {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /**
   * The records from a fingerprint on, in order, without those that have no value any more.
   * @param without records sealed with this key version are left out
   */
  async window(
    from: TokenFingerprint,
    without: number | undefined,
    deadlineMs: number,
  ): Promise<Window> {
    const { rows } = await this.#pool.query(
      NEXT,
      [hexOf(from), without ?? NONE, WINDOW_RECORDS],
      deadlineMs,
    );
    const all = rows.map(({ row }) => bytesOfBytea(row!));
    const last = rows.length < WINDOW_RECORDS ? undefined : all.at(-1);
    return {
      records: all.filter(hasValue).map(recordOf),
      seen: all.length,
      next: last && successor(tokenFingerprintOf(last)),
    };
  }

  /**
   * Puts fresh records in the place of those that have not changed; returns how many. Undefined,
   * and nothing done, when `key_version` is not the newest DEK any more: then it may be retired.
   */
  async replace(
    replacements: readonly Replacement[],
    keyVersion: number,
    deadlineMs: number,
  ): Promise<number | undefined> {
    return this.#pool.transaction(deadlineMs, async (query) => {
      // Shared: `locked` of the keyring waits for this batch, and batches do not for each other.
      await query('select pg_advisory_xact_lock_shared($1::bigint)', [VAULT_LOCK]);
      const { rows: newest } = await query(
        "select max(version) as version from standin.keyring where purpose = 'dek'",
      );
      if (Number(newest[0]!.version) !== keyVersion) return undefined;
      const { rows } = await query(REPLACE, [
        uuidArray(replacements.map(({ old }) => old.token_fingerprint)),
        byteaArray(replacements.map(({ old }) => old.sealed)),
        byteaArray(replacements.map(({ fresh }) => fresh.sealed)),
        keyVersion,
      ]);
      return Number(rows[0]!.count);
    });
  }
}

/** 32 hex digits: how a record is named to people. */
export function hexOf(fingerprint: TokenFingerprint): string {
  return Buffer.from(fingerprint, 'latin1').toString('hex');
}

/** @param digits 32 hex digits */
export function fingerprintOf(digits: string): TokenFingerprint {
  return Buffer.from(digits, 'hex').toString('latin1') as TokenFingerprint;
}

/** The fingerprint after this one; undefined after the last that there can be. */
function successor(fingerprint: TokenFingerprint): TokenFingerprint | undefined {
  const next = BigInt(`0x${hexOf(fingerprint)}`) + 1n;
  const digits = next.toString(16).padStart(32, '0');
  return digits.length > 32 ? undefined : fingerprintOf(digits);
}
