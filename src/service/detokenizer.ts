import type { Keyring } from '../crypto/keyring.ts';
import { InternalError } from '../errors.ts';
import type { RecordStore } from '../store/records.ts';
import type { SealedRecord, Token, TokenFingerprint, Value } from '../types.ts';

/** Gives values back. */
export class Detokenizer {
  readonly #records: RecordStore;
  readonly #keyring: Keyring;
  readonly #onDamaged: (records: number) => void;

  /** @param onDamaged told of records that failed authentication: somebody changed the vault */
  constructor(records: RecordStore, keyring: Keyring, onDamaged: (records: number) => void) {
    this.#records = records;
    this.#keyring = keyring;
    this.#onDamaged = onDamaged;
  }

  /**
   * One value a token, in order; undefined for a token that is not known. Malformed and unknown
   * tokens take the same way, so that nobody learns which is which.
   * @throws InternalError record_damaged or key_missing, never another value
   */
  async detokenize(tokens: readonly Token[]): Promise<readonly (Value | undefined)[]> {
    const fingerprints = tokens.map((token) => this.#keyring.tokenFingerprint(token));
    const records = await this.#records.find(fingerprints);
    return fingerprints.map((fingerprint, i) => this.#open(fingerprint, records[i]));
  }

  #open(token_fingerprint: TokenFingerprint, record: SealedRecord | undefined): Value | undefined {
    if (record === undefined) return undefined;
    // The fingerprint of the caller's token, whatever the row says: a swapped row must fail.
    const opened = this.#keyring.open({ ...record, token_fingerprint });
    if ('value' in opened) return opened.value;
    this.#onDamaged(1);
    throw new InternalError(opened.failure === 'damaged' ? 'record_damaged' : 'key_missing');
  }
}
