import type { OpenedValue } from '../crypto/keyring.ts';
import { NONCE_BYTES, TAG_BYTES } from '../crypto/primitives.ts';
import { spaceBytes } from '../crypto/scope.ts';
import { InternalError } from '../errors.ts';
import type { RecordStore } from '../store/records.ts';
import { VAULT_TIMEOUT_MS } from '../timeouts.ts';
import {
  DEFAULT_SPACE,
  type SealedRecord,
  type Token,
  type TokenFingerprint,
  type Value,
} from '../types.ts';
import type { LeasedKeyring } from '../vault/leased-keyring.ts';

/** Which tokens a caller can see, and how much of their values. */
export interface Visibility {
  /** '': the default space. */
  readonly space: string;
  /** The part of an opened value that leaves this thread. */
  readonly show: (opened: OpenedValue) => Value;
  /** Whether the record of a token probably has a scope, by its index: see `openRecord`. */
  readonly isScoped: (index: number) => boolean;
}

const FULL: Visibility = {
  space: DEFAULT_SPACE,
  show: ({ value }) => value,
  isScoped: () => false,
};

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
    deadlineMs = performance.now() + VAULT_TIMEOUT_MS,
    visibility = FULL,
  ): Promise<readonly (Value | null | undefined)[]> {
    const fingerprints = this.#fingerprints(tokens, visibility.space);
    const records = await this.#records.find(fingerprints, bytes, deadlineMs);
    // Another node may already seal with a version that this node has not read.
    if (!records.every((one) => !one || this.#keys.keyring.hasVersion(one.key_version)))
      await this.#keys.readyToOpen(versionsOf(records), deadlineMs);
    return fingerprints.map((fingerprint, i) => {
      const record = records[i];
      return record ? this.#open(fingerprint, record, visibility, i) : record;
    });
  }

  /**
   * Returns the byte length of each value, in order; undefined and null as in detokenize. With a
   * scope, a length is up to 66 bytes too high, and of an imported token by 1,001 more.
   */
  async sizes(
    tokens: readonly Token[],
    deadlineMs?: number,
    space = DEFAULT_SPACE,
  ): Promise<readonly (number | null | undefined)[]> {
    const sealed = await this.#records.sizes(this.#fingerprints(tokens, space), deadlineMs);
    // A damaged record may be too short. It fails later, when it is opened.
    return sealed.map((bytes) => bytes && Math.max(0, bytes - NONCE_BYTES - TAG_BYTES));
  }

  #fingerprints(tokens: readonly Token[], space: string): TokenFingerprint[] {
    const { keyring } = this.#keys;
    const bytes = spaceBytes(space);
    return tokens.map((token) => keyring.tokenFingerprint(token, bytes));
  }

  #open(
    tokenFingerprint: TokenFingerprint,
    found: SealedRecord,
    { space, show, isScoped }: Visibility,
    index: number,
  ): Value | undefined {
    // Open with the fingerprint of the caller's token, not the row's: a swapped row must fail.
    const record = { ...found, token_fingerprint: tokenFingerprint };
    const opened = this.#keys.keyring.open(record, isScoped(index));
    // Nobody has its token.
    if ('alias' in opened) return undefined;
    const isOpen = 'value' in opened;
    if (isOpen && (opened.scope?.space ?? DEFAULT_SPACE) === space) return show(opened);
    this.#onDamaged(1);
    const isMissing = !isOpen && opened.failure === 'key_missing';
    throw new InternalError(isMissing ? 'key_missing' : 'record_damaged');
  }
}

export function versionsOf(records: readonly (SealedRecord | null | undefined)[]): number[] {
  const versions = new Set<number>();
  for (const record of records) {
    if (record) versions.add(record.key_version);
  }
  return [...versions];
}
