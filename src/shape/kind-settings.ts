import { isPhoneCountry } from './phone.ts';

/** Families of token shapes. `text` is the shape without a policy. */
export const SHAPES = ['text', 'email', 'digits', 'date', 'uuid', 'word'] as const;
export type Shape = (typeof SHAPES)[number];

/** The part of its value that an e-mail or date keeps. */
type KeptPart = 'nothing' | 'domain' | 'top_level_domain' | 'year';

export const NORMALIZATIONS = ['trim', 'lower_case', 'e164'] as const;
type Normalization = (typeof NORMALIZATIONS)[number];

export const CHECK_DIGITS = ['none', 'luhn', 'mod97'] as const;
export type CheckDigits = (typeof CHECK_DIGITS)[number];

/** Most digits that are kept: fewer than any card number has, which no draw could avoid. */
export const MAX_FIXED = 11;

/** How much of a value a masked response shows. */
export type MaskSettings =
  /** `****`, `a***@example.com` or `1985` */
  | { readonly show: 'nothing' | 'domain' | 'year' }
  /**
   * These characters (of `digits`: letters and digits) at the ends. An end that would be more than
   * half is not shown.
   */
  | { readonly show: 'ends'; readonly first: number; readonly last: number };

/** The options of a kind, with their defaults. */
const DEFAULTS = {
  keep: 'nothing' as KeptPart,
  /** Digits and letters kept at both ends, together at most MAX_FIXED. Only of `digits`. */
  keep_first: 0,
  keep_last: 0,
  /** Digits or letters that every token begins with; '': drawn. Only of `digits`. */
  begins_with: '',
  /** `luhn`: the last drawn digit. `mod97`: places 3 and 4, also where they would be kept. */
  check_digits: 'none' as CheckDigits,
  /** Letters of a `word`. */
  length: 10,
  /** Whether tokens end with `_` and the suffix. */
  suffix: true,
  normalize: [] as readonly Normalization[],
  /** ISO 3166-1 alpha-2: phone numbers without a country code are of this country. */
  country: null as string | null,
  /** null: as the client is set. */
  tokens: null as 'deterministic' | 'random' | null,
  /** Seconds; null: as the client is set. */
  time_to_live_s: null as number | null,
};

/**
 * A kind (class of data) as a policy declares it, with all defaults filled in. Plain data, because
 * it goes to the vault threads.
 */
export type KindSettings = Readonly<typeof DEFAULTS> & {
  /** `[a-z][a-z0-9_]{0,31}`. Part of the draw, and of what is sealed. */
  readonly name: string;
  readonly shape: Shape;
  readonly mask: MaskSettings;
};

/** The settings of a kind that only has a name and a shape. */
export function defaultKind(name: string, shape: Shape): KindSettings {
  return { name, shape, ...DEFAULTS, mask: DEFAULT_MASKS[shape] };
}

/** Whether the tokens of a kind can be found in running text. */
export function isTextKind({ shape, suffix }: KindSettings): boolean {
  return shape === 'word' && suffix;
}

const NOTHING: MaskSettings = { show: 'nothing' };
const DEFAULT_MASKS: Readonly<Record<Shape, MaskSettings>> = {
  text: NOTHING,
  email: { show: 'domain' },
  digits: { show: 'ends', first: 0, last: 4 },
  date: { show: 'year' },
  uuid: NOTHING,
  word: NOTHING,
};

/**
 * The settings of a kind that do not go together, and why; empty: `kindOf` takes them. The parser
 * of policies has checked that each is possible for the shape.
 */
export function kindProblems(settings: KindSettings) {
  const { shape, keep, suffix, normalize, country } = settings;
  const { keep_first: first, keep_last: last, begins_with: begin, check_digits: check } = settings;
  const isPhone = normalize.includes('e164');
  const phones = `e164 makes telephone numbers, which shape ${shape} refuses`;
  const isUnknown = country !== null && !isPhoneCountry(country);
  const isYear = shape === 'date' && keep === 'year';
  const isTooLong = Math.max(first, begin.length) + last > MAX_FIXED;
  const problems: readonly (readonly [boolean, keyof KindSettings, reason: string])[] = [
    [isYear && !suffix, 'suffix', 'must be true with keep: year, because a year has only 365 days'],
    [isTooLong, last > 0 ? 'keep_last' : 'begins_with', LEAVES],
    [begin !== '' && first > 0, 'begins_with', 'takes the place of keep_first: use one of them'],
    [check === 'luhn' && /\D/.test(begin), 'begins_with', 'must be digits with check_digits: luhn'],
    [check === 'mod97' && !/^[A-Za-z]{0,2}$/.test(begin), 'begins_with', TWO_LETTERS],
    [isPhone && (shape === 'email' || shape === 'date'), 'normalize', phones],
    [country !== null && !isPhone, 'country', 'is for normalize: e164'],
    [isUnknown, 'country', 'must be a country of ISO 3166-1 in two capitals, like US'],
  ];
  return problems.flatMap(([is, field, reason]) => (is ? [{ field, reason }] : []));
}

const LEAVES = `leaves more than ${MAX_FIXED} digits as they are`;
const TWO_LETTERS = 'must be at most two letters with check_digits: mod97';

const REAL_WITHOUT_SUFFIX: Readonly<Partial<Record<Shape, string>>> = {
  text: 'Without suffix, a token can be a real number, name or address of somebody.',
  email: 'Without suffix, a token can be a real address of somebody.',
  digits: 'Without suffix and begins_with, a token can be a real number of somebody.',
  date: 'Without suffix, nothing tells a token from a real date.',
};

/** Where a token could be somebody's real number, address or date. Sentences. */
export function kindWarnings(settings: KindSettings): string[] {
  const real = REAL_WITHOUT_SUFFIX[settings.shape];
  const warnings =
    real === undefined || settings.suffix || settings.begins_with !== '' ? [] : [real];
  if (settings.check_digits === 'luhn') {
    warnings.push('Every token passes as a card number: scanners for card numbers report it.');
  }
  return warnings;
}
