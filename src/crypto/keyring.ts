import type {
  KeyPurpose,
  Sealed,
  SealedRecord,
  Token,
  TokenFingerprint,
  Value,
  ValueFingerprint,
} from '../types.ts';
import { Mac } from './mac.ts';
import { checkedKey, deriveKey, importKey, type Key, randomLatin1 } from './primitives.ts';
import { FINGERPRINT_BYTES, openRecord, sealRecord } from './record.ts';

/** An unwrapped key of the vault. */
export interface PlainKey {
  readonly purpose: KeyPurpose;
  readonly version: number;
  readonly bytes: Buffer;
}

/** Bytes of one draw that make the stem; the rest of draw 0 is the value fingerprint. */
const DRAW_BYTES = 48;
const SUBKEYS = 256;

interface Dek {
  readonly key: Key;
  readonly subkeys: readonly Key[];
}

export type Opened = { readonly value: Value } | { readonly failure: 'damaged' | 'key_missing' };

/**
 * The keys of a vault, unwrapped and ready for use. All methods are synchronous and pure but for
 * the random ones. Formats: docs/record-format.md.
 */
export class Keyring {
  #primaryVersion = 0;
  #deks: ReadonlyMap<number, Dek> = new Map();
  readonly #fingerprintMac: Mac;
  readonly #tokenMac: Mac;
  readonly #apiKeyMac: Mac;

  constructor(keys: readonly PlainKey[]) {
    this.renew(keys);
    this.#fingerprintMac = new Mac('sha256', only(keys, 'fingerprint'));
    this.#tokenMac = new Mac('sha512', only(keys, 'token'));
    this.#apiKeyMac = new Mac('sha256', only(keys, 'api-key'));
  }

  /** The DEK version that new records are sealed with: the highest. */
  get primaryVersion(): number {
    return this.#primaryVersion;
  }

  /**
   * Takes the DEKs of `keys` for those that it had. The other keys stay: of them a vault has one
   * each, for ever. @throws RangeError without a DEK
   */
  renew(keys: readonly PlainKey[]): void {
    const deks = keys.filter((key) => key.purpose === 'dek');
    if (deks.length === 0) throw new RangeError('the keyring needs a dek key');
    this.#deks = new Map(deks.map((key) => [key.version, this.#dekOf(key)]));
    this.#primaryVersion = Math.max(...this.#deks.keys());
  }

  /** Whether records that are sealed with this version can be opened. */
  hasVersion(keyVersion: number): boolean {
    return this.#deks.has(keyVersion);
  }

  /** First 16 bytes of HMAC-SHA-256(fingerprint key, token). */
  tokenFingerprint(token: Token): TokenFingerprint {
    return this.#fingerprintMac.digest(token).slice(0, FINGERPRINT_BYTES) as TokenFingerprint;
  }

  /**
   * Bytes of a deterministic draw: the first 48 of HMAC-SHA-512(token key, draw, block, value),
   * draw and block one byte each. With `value_fingerprint`, the last 16 of draw 0, block 0: one
   * HMAC serves both, and the bits of a PRF are independent.
   */
  deterministicDraws(value: Value): {
    draws: (draw: number, block: number) => string;
    value_fingerprint: ValueFingerprint;
  } {
    const first = this.#draw(value, 0, 0);
    return {
      draws: (draw, block) =>
        (draw === 0 && block === 0 ? first : this.#draw(value, draw, block)).slice(0, DRAW_BYTES),
      value_fingerprint: first.slice(DRAW_BYTES) as ValueFingerprint,
    };
  }

  /**
   * Fresh bytes each time, and a fingerprint that says nothing of the value: equal values stay
   * unlinkable at rest.
   */
  randomDraws(): {
    draws: (draw: number, block: number) => string;
    value_fingerprint: ValueFingerprint;
  } {
    return {
      draws: () => randomLatin1(DRAW_BYTES),
      value_fingerprint: randomLatin1(FINGERPRINT_BYTES) as ValueFingerprint,
    };
  }

  seal(
    value: Value,
    tokenFingerprint: TokenFingerprint,
    valueFingerprint: ValueFingerprint,
  ): SealedRecord {
    const keyVersion = this.primaryVersion;
    const key = subkeyFor(this.#deks.get(keyVersion)!.subkeys, tokenFingerprint);
    return {
      token_fingerprint: tokenFingerprint,
      value_fingerprint: valueFingerprint,
      key_version: keyVersion,
      sealed: sealRecord(key, keyVersion, tokenFingerprint, valueFingerprint, value),
    };
  }

  /**
   * @param record of which `token_fingerprint` was computed from the caller's token, not read from
   * the row
   */
  open(record: SealedRecord): Opened {
    const dek = this.#deks.get(record.key_version);
    if (dek === undefined) return { failure: 'key_missing' };
    const {
      token_fingerprint: tokenFingerprint,
      value_fingerprint: valueFingerprint,
      key_version: keyVersion,
      sealed,
    } = record;
    const key = subkeyFor(dek.subkeys, tokenFingerprint);
    const value = openRecord(key, keyVersion, tokenFingerprint, valueFingerprint, sealed as Sealed);
    return value === undefined ? { failure: 'damaged' } : { value: value as Value };
  }

  /**
   * HMAC-SHA-256(API key key, API key): 32 bytes as a latin1 string, all that is stored of an API
   * key.
   */
  apiKeyDigest(apiKey: string): string {
    return this.#apiKeyMac.digest(apiKey);
  }

  /** Subkeys take time to derive: those that are there are kept. */
  #dekOf({ version, bytes }: PlainKey): Dek {
    const key = importKey(bytes);
    const known = this.#deks.get(version);
    return known?.key.equals(key) ? known : { key, subkeys: subkeys(key) };
  }

  #draw(value: Value, draw: number, block: number): string {
    return this.#tokenMac.digest(value, draw, block);
  }
}

function only(keys: readonly PlainKey[], purpose: KeyPurpose): Uint8Array {
  const found = keys.filter((key) => key.purpose === purpose);
  if (found.length !== 1) throw new RangeError(`the keyring needs one ${purpose} key`);
  return checkedKey(found[0]!.bytes);
}

/**
 * 256 subkeys a DEK, picked by the first fingerprint byte: each seals 1/256 of the records, so that
 * random nonces stay below the 2^32 invocations a key of NIST SP 800-38D section 8.3 up to 10^12
 * records.
 */
function subkeys(dek: Key): Key[] {
  return Array.from({ length: SUBKEYS }, (_, index) =>
    deriveKey(dek, `standin record subkey ${index}`),
  );
}

function subkeyFor(subkeys: readonly Key[], tokenFingerprint: TokenFingerprint): Key {
  return subkeys[tokenFingerprint.charCodeAt(0)]!;
}
