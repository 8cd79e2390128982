/** Families of token shapes. `text` is the shape without a policy. */
export const SHAPES = ['text', 'email', 'digits', 'date', 'uuid', 'word'] as const;
export type Shape = (typeof SHAPES)[number];

/** What an e-mail or date keeps of its value. */
type KeptPart = 'nothing' | 'domain' | 'top_level_domain' | 'year';

export const NORMALIZATIONS = ['trim', 'lower_case', 'e164'] as const;
type Normalization = (typeof NORMALIZATIONS)[number];

export const CHECK_DIGITS = ['none', 'luhn', 'mod97'] as const;
export type CheckDigits = (typeof CHECK_DIGITS)[number];

/** Most digits that are kept: fewer than any card number has, which no draw could avoid. */
export const MAX_FIXED = 11;

/** How much of a value a masked answer shows. */
export type MaskSettings =
  /** `****` */
  | { readonly show: 'nothing' }
  /**
   * These characters (of `digits`: letters and digits) at the ends. An end that would be more than
   * half is not shown.
   */
  | { readonly show: 'ends'; readonly first: number; readonly last: number }
  /** `a***@example.com` */
  | { readonly show: 'domain' }
  /** `1985` */
  | { readonly show: 'year' };

/**
 * A kind (class of data) as a policy declares it, with all defaults filled in. Plain data, because
 * it goes to the vault threads.
 */
export interface KindSettings {
  /** `[a-z][a-z0-9_]{0,31}`. Part of the draw, and of what is sealed. */
  readonly name: string;
  readonly shape: Shape;
  readonly keep: KeptPart;
  /** Digits and letters kept at both ends, together at most MAX_FIXED. Only of `digits`. */
  readonly keep_first: number;
  readonly keep_last: number;
  /** Digits or letters that every token begins with; '': drawn. Only of `digits`. */
  readonly begins_with: string;
  /** `luhn`: the last drawn digit. `mod97`: places 3 and 4, also where they would be kept. */
  readonly check_digits: CheckDigits;
  /** Letters of a `word`. */
  readonly length: number;
  /** Whether tokens end with `_` and the suffix. */
  readonly suffix: boolean;
  readonly normalize: readonly Normalization[];
  /** ISO 3166-1 alpha-2: phone numbers without a country code are of this country. */
  readonly country: string | null;
  /** null: as the client is set. */
  readonly tokens: 'deterministic' | 'random' | null;
  /** Seconds; null: as the client is set. */
  readonly time_to_live_s: number | null;
  readonly mask: MaskSettings;
}
