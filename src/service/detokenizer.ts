import { NONCE_BYTES, TAG_BYTES } from '../crypto/primitives.ts';
import { InternalError } from '../errors.ts';
import type { RecordStore } from '../store/records.ts';
import { REQUEST_PATIENCE_MS } from '../timeouts.ts';
import type { SealedRecord, Token, TokenFingerprint, Value } from '../types.ts';
import type { EngineKeys } from './keys/engine-keys.ts';

/** Gives values back. */
export class Detokenizer {
  readonly #records: RecordStore;
  readonly #keys: EngineKeys;
  readonly #onDamaged: (records: number) => void;

  /** @param onDamaged told of records that failed authentication: somebody changed the vault */
  constructor(records: RecordStore, keys: EngineKeys, onDamaged: (records: number) => void) {
    this.#records = records;
    this.#keys = keys;
    this.#onDamaged = onDamaged;
  }

  /**
   * One value a token, in order; undefined for a token that is not known, null for one that was
   * forgotten or has expired. All of them take the same way, and so do malformed tokens, so that
   * nobody learns which is which.
   * @param bytes of all values together, at most, as far as it is known
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
    // Another node may seal with a version that this one has not seen yet.
    await this.#keys.readyToOpen(versionsOf(records), deadlineMs);
    return fingerprints.map((fingerprint, i) => this.#open(fingerprint, records[i]));
  }

  /** How many bytes each value has, in order; undefined and null as of detokenize. */
  async sizes(
    tokens: readonly Token[],
    deadlineMs?: number,
  ): Promise<readonly (number | null | undefined)[]> {
    const { keyring } = this.#keys;
    const sealed = await this.#records.sizes(
      tokens.map((token) => keyring.tokenFingerprint(token)),
      deadlineMs,
    );
    // A damaged record may be shorter than any; it fails when it is opened.
    return sealed.map((bytes) => bytes && Math.max(0, bytes - NONCE_BYTES - TAG_BYTES));
  }

  #open(
    tokenFingerprint: TokenFingerprint,
    record: SealedRecord | null | undefined,
  ): Value | null | undefined {
    if (!record) return record;
    // The fingerprint of the caller's token, whatever the row says: a swapped row must fail.
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
