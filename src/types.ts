/**
 * Brands keep the kinds of string apart at compile time: a Value cannot reach SQL, a Token is no
 * Value.
 */
declare const brand: unique symbol;
type Brand<T, Name extends string> = T & { readonly [brand]: Name };

/** A string to protect. Always well-formed UTF-16 of at most 64 KiB UTF-8. */
export type Value = Brand<string, 'Value'>;

/** What stands in for a value: stem + `_` + suffix, printable ASCII. */
export type Token = Brand<string, 'Token'>;

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

/**
 * What became of a record that was to be inserted: it was written; its token stands for another
 * value; its key version takes no records any more; or a record of its value is there already, and
 * whether that one opens is for those to see who have the keys.
 */
export type InsertOutcome = 'stored' | 'collision' | 'key_retired' | SealedRecord;

export type TokenMode = 'deterministic' | 'random';

/** How a client has its tokens. */
export type TokenTerms = Pick<Client, 'token_mode' | 'time_to_live_s'>;

export const KEY_PURPOSES = ['dek', 'fingerprint', 'token', 'api-key'] as const;
export type KeyPurpose = (typeof KEY_PURPOSES)[number];

/** A key of the vault, wrapped by the KEK, as it is stored. */
export interface WrappedKey {
  readonly purpose: KeyPurpose;
  readonly version: number;
  readonly kek_id: string;
  readonly wrapped: Buffer;
  readonly created_at: Date;
}

/** Who calls, as an API key proves it. */
export interface Client {
  readonly client_id: string;
  readonly name: string;
  /** Requests a second; null: the deployment's RATE_LIMIT; 0: no limit. */
  readonly rate_limit: number | null;
  readonly token_mode: TokenMode;
  readonly can_tokenize: boolean;
  readonly can_detokenize: boolean;
  /** Detokenize requests a second; null: the deployment's DETOKENIZE_LIMIT; 0: no limit. */
  readonly detokenize_limit: number | null;
  /** Unknown tokens a second; null: the deployment's UNKNOWN_TOKEN_LIMIT; 0: no limit. */
  readonly unknown_token_limit: number | null;
  /** How long its tokens are known after they were last given out; null: for ever. */
  readonly time_to_live_s: number | null;
  readonly created_at: Date;
  readonly disabled_at: Date | null;
}

export interface ApiKey {
  /** Names the key in commands and logs; it is no secret and opens nothing. */
  readonly api_key_id: string;
  readonly client_id: string;
  readonly created_at: Date;
  readonly expires_at: Date | null;
  readonly revoked_at: Date | null;
}

export interface UsedApiKey extends ApiKey {
  /** On any node, to the minute; null: never since this is recorded. */
  readonly last_used_at: Date | null;
}

/** What a TLS listener shows and asks for, in PEM. */
export interface TlsPem {
  /** With its chain, that of the server first. */
  readonly certificate: string;
  readonly key: string;
  /** Authorities whose client certificates are taken; undefined: none is asked for. */
  readonly clientCa: string | undefined;
}

/** Which limit of a client refuses a request. */
export type LimitName = 'requests' | 'detokenize' | 'unknown_tokens';

/** A line of `standin doctor`. */
export interface Finding {
  readonly check: string;
  readonly status: 'ok' | 'warning' | 'problem';
  /** What is so, and for anything but `ok` what to do about it. */
  readonly detail: string;
}
