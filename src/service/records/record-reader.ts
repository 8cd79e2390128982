import type { Keyring } from '../../crypto/keyring.ts';
import { hexOf } from '../../store/record-walk.ts';
import type { SealedRecord, Value } from '../../types.ts';
import type { KeyRenewal } from '../keys/key-renewal.ts';

/** A record that does not open. */
export interface BadRecord {
  /** Its token fingerprint, 32 hex digits. */
  readonly fingerprint: string;
  readonly reason: 'damaged' | 'key_missing';
}

export interface OpenedRecord {
  readonly record: SealedRecord;
  readonly value: Value;
}

/**
 * Opens records by the fingerprints in their own rows, because there is no token from a caller. So
 * it cannot detect a row that was swapped whole, fingerprint included.
 */
export class RecordReader {
  readonly #keyring: Keyring;
  readonly #renewal: KeyRenewal;
  readonly #onBad: (record: BadRecord) => void;
  bad = 0;

  /** @param renewal finds key versions that other processes have added */
  constructor(keyring: Keyring, renewal: KeyRenewal, onBad: (record: BadRecord) => void) {
    this.#keyring = keyring;
    this.#renewal = renewal;
    this.#onBad = onBad;
  }

  /** Returns the records that open. Counts and reports the others. */
  async open(records: readonly SealedRecord[]): Promise<OpenedRecord[]> {
    if (records.some(({ key_version: keyVersion }) => !this.#keyring.hasVersion(keyVersion))) {
      await this.#renewal.look();
      this.#keyring.renew(this.#renewal.latest.keys);
    }
    return records.flatMap((record) => {
      const opened = this.#keyring.open(record);
      if ('value' in opened) return [{ record, value: opened.value }];
      this.bad++;
      this.#onBad({ fingerprint: hexOf(record.token_fingerprint), reason: opened.failure });
      return [];
    });
  }
}
