import { hash } from 'node:crypto';
import type {
  FreshRecord,
  KeyPurpose,
  Sealed,
  SealedRecord,
  Token,
  TokenFingerprint,
  Value,
  ValueFingerprint,
} from '../types.ts';
import { Mac } from './mac.ts';
import {
  checkedKey,
  deriveKey,
  importKey,
  KEY_BYTES,
  type Key,
  open,
  randomLatin1,
  seal,
} from './primitives.ts';
import { FINGERPRINT_BYTES, openRecord, sealRecord } from './record.ts';
import {
  aliasPlaintext,
  fingerprintPrefix,
  importedPlaintext,
  type OpenedAlias,
  type OpenedValue,
  type Scope,
} from './scope.ts';

/** An unwrapped key of the vault. */
export interface PlainKey {
  /** See WrappedKey. */
  readonly id: string;
  readonly purpose: KeyPurpose;
  readonly version: number;
  readonly bytes: Buffer;
}

/** Bytes of a draw that make the stem. The rest of draw 0 is the value fingerprint. */
const DRAW_BYTES = 48;
const SUBKEYS = 256;
/** Higher than any draw, which is the first byte of a message without scope. */
const SCOPED = 0x80;
const AUDIT_CHAIN = 'standin audit chain';
const CONVERSATIONS = 'standin conversations';
const AUDIT_MAC_CHARACTERS = 22;
const UNSEALED = Buffer.alloc(0) as Sealed;

interface Dek {
  readonly key: Key;
  readonly subkeys: readonly Key[];
}

/** The source of the draws of a token. */
export interface DrawSource {
  /** DRAW_BYTES bytes as a latin1 string. */
  readonly draws: (draw: number, block: number) => string;
  readonly value_fingerprint: ValueFingerprint;
}

export type { OpenedAlias, OpenedValue };

export type Opened = OpenedValue | OpenedAlias | { readonly failure: 'damaged' | 'key_missing' };

/**
 * The keys of a vault, unwrapped and ready for use. All methods are synchronous, and all but the
 * random ones are pure. Formats: docs/record-format.md.
 */
export class Keyring {
  #primaryVersion = 0;
  #primaryId = '';
  #deks: ReadonlyMap<number, Dek> = new Map();
  readonly #fingerprintMac: Mac;
  readonly #tokenMac: Mac;
  readonly #randomDraws: RandomDraws;
  readonly #apiKeyMac: Mac;
  readonly #auditMac: Mac;
  readonly #conversationKey: Key;

  constructor(keys: readonly PlainKey[]) {
    this.renew(keys);
    this.#fingerprintMac = new Mac('sha256', only(keys, 'fingerprint'));
    const tokenKey = only(keys, 'token');
    this.#tokenMac = new Mac('sha512', tokenKey);
    this.#randomDraws = new RandomDraws(tokenKey);
    const apiKeyKey = only(keys, 'api-key');
    this.#apiKeyMac = new Mac('sha256', apiKeyKey);
    this.#auditMac = new Mac('sha256', deriveKey(importKey(apiKeyKey), AUDIT_CHAIN).export());
    this.#conversationKey = deriveKey(importKey(apiKeyKey), CONVERSATIONS);
  }

  /** The highest DEK version, which seals new records. */
  get primaryVersion(): number {
    return this.#primaryVersion;
  }

  /** `id` of the primary. */
  get primaryId(): string {
    return this.#primaryId;
  }

  /**
   * Replaces the DEKs with those of `keys`. The other keys stay, because a vault keeps them for
   * ever.
   * @throws RangeError without a DEK
   */
  renew(keys: readonly PlainKey[]): void {
    const deks = keys.filter((key) => key.purpose === 'dek');
    if (deks.length === 0) throw new RangeError('the keyring needs a dek key');
    this.#deks = new Map(deks.map((key) => [key.version, this.#dekOf(key)]));
    this.#primaryVersion = Math.max(...this.#deks.keys());
    this.#primaryId = deks.find(({ version }) => version === this.#primaryVersion)!.id;
  }

  /** Whether this keyring can open records of this key version. */
  hasVersion(keyVersion: number): boolean {
    return this.#deks.has(keyVersion);
  }

  /**
   * First 16 bytes of HMAC-SHA-256(fingerprint key, prefix of the space, token).
   * @param token any text of a caller
   * @param space `spaceBytes` of the space that the token belongs to
   */
  tokenFingerprint(token: Token, space: readonly number[] = []): TokenFingerprint {
    const digest = this.#fingerprintMac.digest(token, ...fingerprintPrefix(token, space));
    return digest.slice(0, FINGERPRINT_BYTES) as TokenFingerprint;
  }

  /**
   * `draws` returns the bytes of a deterministic draw: the first 48 of HMAC-SHA-512(token key,
   * draw, block, value), with one byte each for draw and block. With a scope, the message is 0x80,
   * draw, block, the header of the scope and the value: no message of two scopes is the same.
   * `value_fingerprint` is the last 16 bytes of draw 0, block 0. One HMAC serves both, because the
   * bits of a PRF are independent.
   */
  deterministicDraws(value: Value, scope?: Scope): DrawSource {
    const first = this.#draw(value, 0, 0, scope);
    return {
      draws: (draw, block) =>
        (draw === 0 && block === 0 ? first : this.#draw(value, draw, block, scope)).slice(
          0,
          DRAW_BYTES,
        ),
      value_fingerprint: first.slice(DRAW_BYTES) as ValueFingerprint,
    };
  }

  /**
   * A fresh random fingerprint each time, so equal values are unlinkable at rest. The draws come
   * from it, so that an export finds the token again. The value is not in them: what stays of a
   * forgotten record must not confirm a guess.
   * @param valueFingerprint of a stored record
   */
  randomDraws(valueFingerprint = randomLatin1(FINGERPRINT_BYTES) as ValueFingerprint): DrawSource {
    return {
      draws: (draw, block) =>
        this.#randomDraws.block(valueFingerprint, draw, block).slice(0, DRAW_BYTES),
      value_fingerprint: valueFingerprint,
    };
  }

  /** @param imported the token, if it came with the value: the vault cannot draw it again */
  seal(
    value: Value,
    tokenFingerprint: TokenFingerprint,
    valueFingerprint: ValueFingerprint,
    scope?: Scope,
    imported?: Token,
  ): FreshRecord {
    const isScoped = scope !== undefined || imported !== undefined;
    const plaintext =
      imported === undefined
        ? (scope?.header ?? '') + value
        : importedPlaintext(value, imported, scope);
    return this.#seal(plaintext, isScoped, tokenFingerprint, valueFingerprint);
  }

  /** Seals a record that leads from the token that would be drawn for a value to its own token. */
  sealAlias(
    { alias, space }: OpenedAlias,
    tokenFingerprint: TokenFingerprint,
    valueFingerprint: ValueFingerprint,
  ): FreshRecord {
    return this.#seal(aliasPlaintext(alias, space), true, tokenFingerprint, valueFingerprint);
  }

  #seal(
    plaintext: string,
    isScoped: boolean,
    tokenFingerprint: TokenFingerprint,
    valueFingerprint: ValueFingerprint,
  ): FreshRecord {
    // Without a spread, which would cost 0.3 us.
    const record = {
      token_fingerprint: tokenFingerprint,
      value_fingerprint: valueFingerprint,
      key_version: this.#primaryVersion,
      key_id: this.#primaryId,
      sealed: UNSEALED,
    };
    const key = subkeyFor(this.#deks.get(record.key_version)!.subkeys, tokenFingerprint);
    record.sealed = sealRecord(key, record, plaintext, isScoped);
    return record;
  }

  /**
   * @param record its `token_fingerprint` must come from the caller's token, not from the row
   * @param isScoped see `openRecord`
   */
  open(record: SealedRecord, isScoped?: boolean): Opened {
    const dek = this.#deks.get(record.key_version);
    if (dek === undefined) return { failure: 'key_missing' };
    const opened = openRecord(subkeyFor(dek.subkeys, record.token_fingerprint), record, isScoped);
    return opened ?? { failure: 'damaged' };
  }

  /**
   * HMAC-SHA-256(API key key, API key): 32 bytes as a latin1 string. The vault stores nothing else
   * of an API key.
   */
  apiKeyDigest(apiKey: string): string {
    return this.#apiKeyMac.digest(apiKey);
  }

  /**
   * First 22 characters (132 bits) of HMAC-SHA-256(key, last, line) in base64url. The key is
   * HKDF-SHA-256 of the API key key, which a vault keeps for ever, so old logs stay verifiable.
   * @param last the result for the line before; empty: none
   */
  auditMac(last: string, line: Uint8Array): string {
    return this.#auditMac.base64url(last, line).slice(0, AUDIT_MAC_CHARACTERS);
  }

  /**
   * Seals what a caller keeps of a conversation. The key is HKDF-SHA-256 of the API key key, which
   * a vault keeps for ever and all nodes have.
   * @returns as `seal` of the primitives; the AAD is the space
   */
  sealConversation(content: Buffer, space: string): Buffer {
    return seal(this.#conversationKey, content, Buffer.from(space));
  }

  /** undefined: not sealed by this vault for this space. */
  openConversation(sealed: Buffer, space: string): Buffer | undefined {
    return open(this.#conversationKey, sealed, Buffer.from(space));
  }

  /** Keeps the subkeys of a DEK that has not changed: to derive them takes time. */
  #dekOf({ version, bytes }: PlainKey): Dek {
    const key = importKey(bytes);
    const known = this.#deks.get(version);
    return known?.key.equals(key) ? known : { key, subkeys: subkeys(key) };
  }

  #draw(value: Value, draw: number, block: number, scope: Scope | undefined): string {
    if (scope === undefined) return this.#tokenMac.digest(value, draw, block);
    return this.#tokenMac.digest(value, SCOPED, draw, block, ...scope.bytes);
  }
}

function only(keys: readonly PlainKey[], purpose: KeyPurpose): Uint8Array {
  const found = keys.filter((key) => key.purpose === purpose);
  if (found.length !== 1) throw new RangeError(`the keyring needs one ${purpose} key`);
  return checkedKey(found[0]!.bytes);
}

/**
 * 256 subkeys a DEK, chosen by the first fingerprint byte, so each seals 1/256 of the records. Up
 * to 10^12 records, random nonces thus stay below the 2^32 invocations a key of NIST SP 800-38D
 * section 8.3.
 */
function subkeys(dek: Key): Key[] {
  return Array.from({ length: SUBKEYS }, (_, index) =>
    deriveKey(dek, `standin record subkey ${index}`),
  );
}

function subkeyFor(subkeys: readonly Key[], tokenFingerprint: TokenFingerprint): Key {
  return subkeys[tokenFingerprint.charCodeAt(0)]!;
}

const RANDOM_TOKENS = 'standin random tokens';
const COUNTER_BYTES = 4;
const DRAW_AT = COUNTER_BYTES + KEY_BYTES;
const FINGERPRINT_AT = DRAW_AT + 1;

/**
 * Bytes of random tokens: the one-step KDF of NIST SP 800-56C rev. 2, section 4.1, option 1, with
 * SHA-512. The counter is block + 1, the secret is HKDF-SHA-256 of the token key, and the fixed
 * information is draw (1 byte) and fingerprint. HMAC would cost 0.8 us more, a 20th of a tokenize.
 */
class RandomDraws {
  readonly #message = Buffer.alloc(FINGERPRINT_AT + FINGERPRINT_BYTES);

  /** @param tokenKey 32 bytes */
  constructor(tokenKey: Uint8Array) {
    deriveKey(importKey(tokenKey), RANDOM_TOKENS).export().copy(this.#message, COUNTER_BYTES);
  }

  /** 64 bytes as a latin1 string. */
  block(fingerprint: ValueFingerprint, draw: number, block: number): string {
    this.#message[COUNTER_BYTES - 1] = block + 1;
    this.#message[DRAW_AT] = draw;
    this.#message.write(fingerprint, FINGERPRINT_AT, 'latin1');
    return hash('sha512', this.#message, 'binary');
  }
}
