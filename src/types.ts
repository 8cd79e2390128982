/**
 * Brands tell kinds of string apart at compile time: a Value cannot reach SQL, and a Token is not a
 * Value.
 */
declare const brand: unique symbol;
type Brand<T, Name extends string> = T & { readonly [brand]: Name };

/** In UTF-8. */
export const MAX_VALUE_BYTES = 65_536;

/** A string to protect. Always well-formed UTF-16, at most MAX_VALUE_BYTES. */
export type Value = Brand<string, 'Value'>;

/** Replaces a value: stem + `_` + suffix, printable ASCII. */
export type Token = Brand<string, 'Token'>;

/**
 * What a failover keeps: its transaction ended with a commit that a synchronous standby confirmed.
 * Only `Pool.durably` makes it. Every "done" and "already" takes it. `{ ...result }` keeps the
 * brand.
 */
export type Durable<T> = T extends object ? Brand<T, 'Durable'> : T;

/** A result in other words, which say no more than the durable result does. */
export function restate<T extends object>(_: Durable<object>, words: T): Durable<T> {
  return words as Durable<T>;
}

/** The drawn part of a token, before the suffix. */
export type Stem = Brand<string, 'Stem'>;

/**
 * 16 bytes as a latin1 string (one character a byte): cheap to compare, sort and use as a Map key.
 */
export type TokenFingerprint = Brand<string, 'TokenFingerprint'>;

/** 16 bytes as a latin1 string: tells "already stored" from "collision" without decrypting. */
export type ValueFingerprint = Brand<string, 'ValueFingerprint'>;

/** nonce (12 bytes), ciphertext, authentication tag (16 bytes). */
export type Sealed = Brand<Buffer, 'Sealed'>;

/** One row of the vault, with no value and no token in clear. */
export interface SealedRecord {
  readonly token_fingerprint: TokenFingerprint;
  readonly value_fingerprint: ValueFingerprint;
  readonly key_version: number;
  readonly sealed: Sealed;
}

/** A record that is to be written. */
export interface FreshRecord extends SealedRecord {
  /** `id` of the key that sealed it. */
  readonly key_id: string;
}

/**
 * Outcome of an insert. `stored`: the record was written. `collision`: its token stands for another
 * value. `key_retired`: its key version takes no more records. A SealedRecord: the vault already
 * has this record of its value; the caller, who has the keys, checks that it opens.
 */
export type InsertOutcome = 'stored' | 'collision' | 'key_retired' | SealedRecord;

/** The kind of every value without a policy. */
export const DEFAULT_KIND = 'text';
/** The space of every client without a space of its own. */
export const DEFAULT_SPACE = '';

/** The names of kinds and spaces, in words for a person. */
export const SCOPE_NAMES = '1 to 32 letters (A to Z, a to z), digits, _ and -';

/** Whether a kind or space can have this name. */
export function isScopeName(name: string): boolean {
  return /^[\w-]{1,32}$/.test(name);
}

export const KEY_PURPOSES = ['dek', 'fingerprint', 'token', 'api-key'] as const;
export type KeyPurpose = (typeof KEY_PURPOSES)[number];

/** A key of the vault, wrapped by the KEK. */
export interface WrappedKey {
  /**
   * `created_at`, to the microsecond: a failover or restore can give the version to another key.
   */
  readonly id: string;
  readonly purpose: KeyPurpose;
  readonly version: number;
  readonly kek_id: string;
  readonly wrapped: Buffer;
  readonly created_at: Date;
}

export interface ApiKey {
  /** Names the API key in commands and logs. Not a secret: it gives no access. */
  readonly api_key_id: string;
  readonly client_id: string;
  readonly created_at: Date;
  readonly expires_at: Date | null;
  readonly revoked_at: Date | null;
}

export interface UsedApiKey extends ApiKey {
  /** The last use on any node, to the minute; null: no use since Standin records it. */
  readonly last_used_at: Date | null;
}

/** The certificate and key of a TLS listener, in PEM. */
export interface TlsPem {
  /** The certificate of the server, then the rest of its chain. */
  readonly certificate: string;
  readonly key: string;
  /** Authorities whose client certificates are accepted; undefined: callers need no certificate. */
  readonly clientCa: string | undefined;
}

/** The limit of a client that refuses a request. */
export type LimitName = 'requests' | 'detokenize' | 'lookup' | 'unknown_tokens';

/** A line of `standin doctor`. */
export interface Finding {
  readonly check: string;
  readonly status: 'ok' | 'warning' | 'problem';
  /** The finding. For a warning or a problem, also what to do. */
  readonly detail: string;
}
