import type { SealedRecord, TokenFingerprint } from '../types.ts';

const SLOTS = 2 ** 20;

/**
 * Which token fingerprints were stored a short while ago, as a hint only: it may forget any, and
 * take one for another once in 2^32. 4 MiB whatever happens, and 32 bits of a fingerprint each.
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
/** Longer records are opened each time: 12 MiB at most are kept. */
const MAX_SEALED_BYTES = 128;

/**
 * Which records opened to the value of their value fingerprint a short while ago: equal bytes open
 * to the same value again. Every byte is compared, so a record that was changed is not among them.
 * It may forget any. That spares 4 us a repeated value.
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

/** All of a record as latin1: a Buffer would keep the answer of the database that it is part of. */
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

/** Never 0, which is an empty slot. */
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
