/** Families of token shapes. `text` is the shape without a policy. */
export const SHAPES = ['text', 'email', 'digits', 'date', 'uuid', 'word'] as const;
export type Shape = (typeof SHAPES)[number];

/** What an e-mail or date keeps of its value. */
export const KEPT_PARTS = ['nothing', 'domain', 'top_level_domain', 'year'] as const;
export type KeptPart = (typeof KEPT_PARTS)[number];

export const SPELLINGS = ['trim', 'lower_case', 'e164'] as const;
export type Spelling = (typeof SPELLINGS)[number];

export const CHECK_DIGITS = ['none', 'luhn', 'mod97'] as const;
export type CheckDigits = (typeof CHECK_DIGITS)[number];

/** How much of a value a masked answer shows. */
export type MaskSettings =
  /** `****` */
  | { readonly show: 'nothing' }
  /** At most this many characters (of digits: digits) at each end, and never more than half. */
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
  /** Digits kept at both ends. Only of `digits`. */
  readonly keep_first: number;
  readonly keep_last: number;
  /** Digits that every token begins with; '': drawn. Only of `digits`. */
  readonly begins_with: string;
  readonly check_digits: CheckDigits;
  /** Letters of a `word`. */
  readonly length: number;
  /** Whether tokens end with `_` and the suffix. */
  readonly suffix: boolean;
  readonly spelling: readonly Spelling[];
  /** ISO 3166-1 alpha-2: phone numbers without a country code are of this country. */
  readonly country: string | null;
  /** null: as the client is set. */
  readonly tokens: 'deterministic' | 'random' | null;
  /** Seconds; null: as the client is set. */
  readonly time_to_live_s: number | null;
  readonly mask: MaskSettings;
}
