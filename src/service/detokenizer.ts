import { NONCE_BYTES, TAG_BYTES } from '../crypto/primitives.ts';
import { InternalError } from '../errors.ts';
import type { RecordStore } from '../store/records.ts';
import { REQUEST_PATIENCE_MS } from '../timeouts.ts';
import type { SealedRecord, Token, TokenFingerprint, Value } from '../types.ts';
import type { LeasedKeyring } from './keys/leased-keyring.ts';

/** Opens the records of tokens. */
export class Detokenizer {
  readonly #records: RecordStore;
  readonly #keys: LeasedKeyring;
  readonly #onDamaged: (records: number) => void;

  /** @param onDamaged called for records that fail authentication: somebody changed the vault */
  constructor(records: RecordStore, keys: LeasedKeyring, onDamaged: (records: number) => void) {
    this.#records = records;
    this.#keys = keys;
    this.#onDamaged = onDamaged;
  }

  /**
   * Returns one value for each token, in order: undefined for an unknown token, null for a
   * forgotten or expired one. All tokens, even malformed ones, take the same path, so that timing
   * does not tell them apart.
   * @param bytes upper bound of all values together, if known
   * @param deadlineMs a performance.now() time
   * @throws InternalError record_damaged or key_missing, never another value
   */
  async detokenize(
    tokens: readonly Token[],
    bytes = 0,
    deadlineMs = performance.now() + REQUEST_PATIENCE_MS,
  ): Promise<readonly (Value | null | undefined)[]> {
    const { keyring } = this.#keys;
    const fingerprints = tokens.map((token) => keyring.tokenFingerprint(token));
    const records = await this.#records.find(fingerprints, bytes, deadlineMs);
    // Another node may already seal with a version that this node has not read.
    await this.#keys.readyToOpen(versionsOf(records), deadlineMs);
    return fingerprints.map((fingerprint, i) => this.#open(fingerprint, records[i]));
  }

  /** Returns the byte length of each value, in order; undefined and null as in detokenize. */
  async sizes(
    tokens: readonly Token[],
    deadlineMs?: number,
  ): Promise<readonly (number | null | undefined)[]> {
    const { keyring } = this.#keys;
    const sealed = await this.#records.sizes(
      tokens.map((token) => keyring.tokenFingerprint(token)),
      deadlineMs,
    );
    // A damaged record may be too short. It fails later, when it is opened.
    return sealed.map((bytes) => bytes && Math.max(0, bytes - NONCE_BYTES - TAG_BYTES));
  }

  #open(
    tokenFingerprint: TokenFingerprint,
    record: SealedRecord | null | undefined,
  ): Value | null | undefined {
    if (!record) return record;
    // Open with the fingerprint of the caller's token, not the row's: a swapped row must fail.
    const opened = this.#keys.keyring.open({ ...record, token_fingerprint: tokenFingerprint });
    if ('value' in opened) return opened.value;
    this.#onDamaged(1);
    throw new InternalError(opened.failure === 'damaged' ? 'record_damaged' : 'key_missing');
  }
}

export function versionsOf(records: readonly (SealedRecord | null | undefined)[]): number[] {
  const versions = new Set<number>();
  for (const record of records) {
    if (record) versions.add(record.key_version);
  }
  return [...versions];
}
