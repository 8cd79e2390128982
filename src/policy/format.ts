/**
 * The words of a policy document, for the parser and the JSON Schema. Names and defaults of options
 * are those of KindSettings.
 */
import {
  CHECK_DIGITS,
  type KindSettings,
  MAX_FIXED,
  type MaskSettings,
  NORMALIZATIONS,
  type Shape,
} from '../shape/kind-settings.ts';

/** The version of the format that this program reads. */
export const FORMAT_VERSION = 1;

/** In UTF-8. */
export const MAX_DOCUMENT_BYTES = 256 * 1024;
export const MAX_KINDS = 200;
export const MAX_FIELDS = 1_000;
export const MAX_CLIENTS = 1_000;
export const MAX_PATH_CHARACTERS = 1_000;

/** The parts of a document. `$schema` is for editors. */
export const PARTS = ['version', 'kinds', 'fields', 'elsewhere', 'rights', '$schema'] as const;

export const KIND_NAME = '^[a-z][a-z0-9_]{0,31}$';
/** What a value of the document may be. `meaning` is shown by editors. */
export type OptionForm = { readonly meaning: string } & (
  | { readonly type: 'flag' }
  | { readonly type: 'number'; readonly min: number; readonly max: number }
  | { readonly type: 'word'; readonly of: readonly string[] }
  /** A list of different words. */
  | { readonly type: 'words'; readonly of: readonly string[] }
  /** `like`: the pattern in words, with an example. */
  | { readonly type: 'text'; readonly pattern: string; readonly like: string }
  | { readonly type: 'mask'; readonly of: readonly MaskSettings['show'][] }
);

type OptionName = Exclude<keyof KindSettings, 'name' | 'shape'>;
/** The options of a kind. */
export type Options = { readonly [Name in OptionName]?: OptionForm };

/** As the longest of a client: 10,000 days. */
const MAX_TIME_TO_LIVE_S = 864_000_000;

const OF_ALL: Options = {
  suffix: { type: 'flag', meaning: 'Whether tokens end with _ and the suffix of the vault.' },
  normalize: {
    type: 'words',
    of: NORMALIZATIONS,
    meaning: 'Made uniform before the token is drawn. The uniform value is what comes back.',
  },
  country: {
    type: 'text',
    pattern: '^[A-Z]{2}$',
    like: 'a country such as DE (ISO 3166-1 alpha-2)',
    meaning: 'With normalize: [e164]: the country of phone numbers without a country code.',
  },
  tokens: {
    type: 'word',
    of: ['deterministic', 'random'],
    meaning: 'Equal values get equal tokens, or a new token each time. Default: as the client.',
  },
  time_to_live_s: {
    type: 'number',
    min: 1,
    max: MAX_TIME_TO_LIVE_S,
    meaning: 'Seconds for which tokens are known. Default: as the client.',
  },
};

function mask(...of: readonly MaskSettings['show'][]): Options {
  return { mask: { type: 'mask', of, meaning: 'What a client with the right masked sees.' } };
}

function kept(end: string): OptionForm {
  return {
    type: 'number',
    min: 0,
    max: MAX_FIXED,
    meaning: `Digits and letters kept at the ${end}.`,
  };
}

/** The options of the kinds of a shape. */
export const OPTIONS: Readonly<Record<Shape, Options>> = {
  text: { ...OF_ALL, ...mask('nothing', 'ends') },
  email: {
    keep: {
      type: 'word',
      of: ['nothing', 'top_level_domain', 'domain'],
      meaning: 'The part of the address that tokens keep.',
    },
    ...OF_ALL,
    ...mask('nothing', 'ends', 'domain'),
  },
  digits: {
    keep_first: kept('start'),
    keep_last: kept('end'),
    begins_with: {
      type: 'text',
      pattern: `^[0-9A-Za-z]{1,${MAX_FIXED}}$`,
      like: `1 to ${MAX_FIXED} digits or letters`,
      meaning: 'The start of every token, so that no token is a number that somebody has.',
    },
    check_digits: {
      type: 'word',
      of: CHECK_DIGITS,
      meaning: 'Check digits of tokens: luhn for cards, mod97 for IBANs.',
    },
    ...OF_ALL,
    ...mask('nothing', 'ends'),
  },
  date: {
    keep: { type: 'word', of: ['nothing', 'year'], meaning: 'The part that tokens keep.' },
    ...OF_ALL,
    ...mask('nothing', 'year'),
  },
  uuid: { ...OF_ALL, ...mask('nothing', 'ends') },
  word: {
    length: { type: 'number', min: 5, max: 64, meaning: 'Letters of a token.' },
    ...OF_ALL,
    ...mask('nothing', 'ends'),
  },
};

/** Characters at an end that the mask `ends` shows. */
export const MASK_END = { min: 1, max: 16 } as const;
