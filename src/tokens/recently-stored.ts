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

const OPENED_SLOTS = 2 ** 16;
/** Longer records are not kept, which bounds the cache to 12 MiB. */
const MAX_SEALED_BYTES = 128;

/**
 * Remembers records that opened to the value of their value fingerprint. Equal bytes open to the
 * same value, so a match saves 4 us. A changed record never matches, because every byte is
 * compared. It may forget any record.
 */
export class RecentlyOpened {
  readonly #records: (string | undefined)[] = new Array(OPENED_SLOTS).fill(undefined);

  has(record: SealedRecord): boolean {
    const known = this.#records[word(record.token_fingerprint, 0) % OPENED_SLOTS];
    return known !== undefined && known === bytesOf(record);
  }

  add(record: SealedRecord): void {
    if (record.sealed.length > MAX_SEALED_BYTES) return;
    this.#records[word(record.token_fingerprint, 0) % OPENED_SLOTS] = bytesOf(record);
  }
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
