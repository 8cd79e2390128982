import type { SealedRecord, TokenFingerprint } from '../types.ts';

const SLOTS = 2 ** 20;

/**
 * Remembers token fingerprints that were stored recently. It is only a hint: it may forget any of
 * them, and confuses two fingerprints once in 2^32. It keeps 32 bits of each, always 4 MiB in all.
 */
export class RecentlyStored {
  readonly #marks = new Uint32Array(SLOTS);

  has(fingerprint: TokenFingerprint): boolean {
    return this.#marks[slotOf(fingerprint)] === markOf(fingerprint);
  }

  add(fingerprint: TokenFingerprint): void {
    this.#marks[slotOf(fingerprint)] = markOf(fingerprint);
  }
}

const OPENED_SETS = 2 ** 14;
/** In one slot a set, a third of 30,000 records would push each other out. */
const SET_RECORDS = 4;
/** Longer records are not kept, which bounds the cache to 12 MiB. */
const MAX_SEALED_BYTES = 128;

/**
 * Remembers records that opened to the value of their value fingerprint. Equal bytes open to the
 * same value, so a match saves 4 us. A changed record never matches, because every byte is
 * compared. It may forget any record.
 */
export class RecentlyOpened {
  /** Of each set, the newest first. */
  readonly #records: (string | undefined)[] = new Array(OPENED_SETS * SET_RECORDS).fill(undefined);

  has(record: SealedRecord): boolean {
    const bytes = bytesOf(record);
    const first = setOf(record);
    for (let at = first; at < first + SET_RECORDS; at++)
      if (this.#records[at] === bytes) return true;
    return false;
  }

  add(record: SealedRecord): void {
    if (record.sealed.length > MAX_SEALED_BYTES) return;
    const first = setOf(record);
    this.#records.copyWithin(first + 1, first, first + SET_RECORDS - 1);
    this.#records[first] = bytesOf(record);
  }
}

/** The first place of the record's set. */
function setOf(record: SealedRecord): number {
  return (word(record.token_fingerprint, 0) % OPENED_SETS) * SET_RECORDS;
}

/** The whole record as latin1. A Buffer would keep the database's whole answer in memory. */
function bytesOf(record: SealedRecord): string {
  const {
    token_fingerprint: tokenFingerprint,
    value_fingerprint: valueFingerprint,
    key_version: keyVersion,
    sealed,
  } = record;
  const version = String.fromCharCode(keyVersion);
  return tokenFingerprint + valueFingerprint + version + sealed.toString('latin1');
}

function slotOf(fingerprint: TokenFingerprint): number {
  return word(fingerprint, 0) % SLOTS;
}

/** Never 0, which marks an empty slot. */
function markOf(fingerprint: TokenFingerprint): number {
  return word(fingerprint, 4) || 1;
}

function word(fingerprint: TokenFingerprint, at: number): number {
  return (
    (fingerprint.charCodeAt(at) |
      (fingerprint.charCodeAt(at + 1) << 8) |
      (fingerprint.charCodeAt(at + 2) << 16) |
      (fingerprint.charCodeAt(at + 3) << 24)) >>>
    0
  );
}
