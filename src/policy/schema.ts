/**
 * The format of a policy document: its bounds, the options of kinds, and its JSON Schema. The
 * parser reads the options here. Their names and defaults are those of KindSettings.
 */
import { DETECTORS } from '../detect/detectors.ts';
import {
  CHECK_DIGITS,
  type KindSettings,
  MAX_FIXED,
  type MaskSettings,
  NORMALIZATIONS,
  SHAPES,
  type Shape,
} from '../shape/kind-settings.ts';
import { ELSEWHERE, OTHERS, RIGHTS } from './policy.ts';

/** The version of the format that this program reads. */
export const FORMAT_VERSION = 1;

/** In UTF-8. */
export const MAX_DOCUMENT_BYTES = 256 * 1024;
export const MAX_KINDS = 200;
export const MAX_FIELDS = 1_000;
export const MAX_CLIENTS = 1_000;
export const MAX_PATH_CHARACTERS = 1_000;

export const MAX_DETECTORS = 50;
export const ENTITY = '^[A-Z][A-Z0-9_]{0,63}$';
const DETECTOR_NAME = `^(?:${DETECTORS.join('|')})$|${ENTITY}|^/.+/$`;

export const KIND_NAME = '^[a-z][a-z0-9_]{0,31}$';

/** The values of an option, in JSON Schema. Editors show the description. */
export type OptionSchema = { readonly description: string } & (
  | { readonly type: 'boolean' }
  | ReturnType<typeof whole>
  | { readonly enum: readonly string[] }
  /** A list of different words. */
  | { readonly type: 'array'; readonly items: { enum: readonly string[] }; uniqueItems: true }
  | { readonly type: 'string'; readonly pattern: string }
  | { readonly oneOf: readonly ReturnType<typeof mask>[] }
);

type OptionName = Exclude<keyof KindSettings, 'name' | 'shape'>;
/** The options of a kind. */
export type Options = { readonly [Name in OptionName]?: OptionSchema };

/** As the longest of a client: 10,000 days. */
const MAX_TIME_TO_LIVE_S = 864_000_000;

const OF_ALL: Options = {
  suffix: {
    type: 'boolean',
    description: 'Whether tokens end with _ and the suffix of the vault.',
  },
  normalize: {
    type: 'array',
    items: { enum: NORMALIZATIONS },
    uniqueItems: true,
    description: 'Made uniform before the token is drawn. The uniform value is what comes back.',
  },
  country: {
    type: 'string',
    pattern: '^[A-Z]{2}$',
    description: 'With normalize: [e164]: the country of phone numbers without a country code.',
  },
  tokens: {
    enum: ['deterministic', 'random'],
    description: 'Equal values get equal tokens, or a new token each time. Default: as the client.',
  },
  time_to_live_s: {
    ...whole(1, MAX_TIME_TO_LIVE_S),
    description: 'Seconds for which tokens are known. Default: as the client.',
  },
};

/** Characters at an end that the mask `ends` shows. */
export const MASK_END = whole(1, 16);

function masks(...shown: readonly MaskSettings['show'][]): Options {
  return {
    mask: { oneOf: shown.map(mask), description: 'What a client with the right masked sees.' },
  };
}

function mask(show: MaskSettings['show']) {
  const end = (name: string) => ({
    ...MASK_END,
    description: `Characters shown at the ${name}; of digits, digits. Never more than half.`,
  });
  const shown = { show: { const: show } };
  if (show !== 'ends') return { ...object(shown), required: ['show'] };
  const properties = { ...shown, first: end('start'), last: end('end') };
  const anyOf = [{ required: ['first'] }, { required: ['last'] }];
  return { ...object(properties), required: ['show'], anyOf };
}

function kept(end: string): OptionSchema {
  return { ...whole(0, MAX_FIXED), description: `Digits and letters kept at the ${end}.` };
}

/** The options of the kinds of a shape. */
export const OPTIONS: Readonly<Record<Shape, Options>> = {
  text: { ...OF_ALL, ...masks('nothing', 'ends') },
  email: {
    keep: {
      enum: ['nothing', 'top_level_domain', 'domain'],
      description: 'The part of the address that tokens keep.',
    },
    ...OF_ALL,
    ...masks('nothing', 'ends', 'domain'),
  },
  digits: {
    keep_first: kept('start'),
    keep_last: kept('end'),
    begins_with: {
      type: 'string',
      pattern: `^[0-9A-Za-z]{1,${MAX_FIXED}}$`,
      description: 'The start of every token, so that no token is a number that somebody has.',
    },
    check_digits: {
      enum: CHECK_DIGITS,
      description: 'Check digits of tokens: luhn for cards, mod97 for IBANs.',
    },
    ...OF_ALL,
    ...masks('nothing', 'ends'),
  },
  date: {
    keep: { enum: ['nothing', 'year'], description: 'The part that tokens keep.' },
    ...OF_ALL,
    ...masks('nothing', 'year'),
  },
  uuid: { ...OF_ALL, ...masks('nothing', 'ends') },
  word: {
    length: { ...whole(5, 64), description: 'Letters of a token.' },
    ...OF_ALL,
    ...masks('nothing', 'ends'),
  },
};

const OTHERS_OR_KIND = new RegExp(`^\\${OTHERS}$|${KIND_NAME}`).source;
const CHOICES = Object.entries(ELSEWHERE).map(([word, meaning]) => `${word}: they ${meaning}`);

/** The parts of a document. */
export const PARTS = {
  version: { const: FORMAT_VERSION, description: 'The version of the format.' },
  kinds: {
    description: `Classes of data, by name. ${SHAPES.join(', ')} are kinds already.`,
    ...map(MAX_KINDS, { oneOf: SHAPES.map(kind) }),
    propertyNames: { pattern: KIND_NAME, not: { enum: SHAPES } },
  },
  fields: {
    description:
      'The strings of data that are tokenized: the kind of each path, such as customer.emails[*]. Without it: all strings, as text.',
    ...map(MAX_FIELDS, { type: 'string', pattern: KIND_NAME }),
    propertyNames: { minLength: 1, maxLength: MAX_PATH_CHARACTERS },
  },
  elsewhere: {
    description: `Strings at paths that fields does not name. ${CHOICES.join('; ')}.`,
    enum: Object.keys(ELSEWHERE),
  },
  detect: {
    description: `How text/tokenize finds values in texts: the kind of ${DETECTORS.join(', ')}; of an entity of Presidio in capitals, such as PERSON; of an own pattern between slashes (RE2 syntax). Kinds are of shape word with suffix.`,
    ...map(MAX_DETECTORS, { type: 'string', pattern: KIND_NAME }),
    propertyNames: { pattern: DETECTOR_NAME },
  },
  rights: {
    description: `What a client, by name or id, sees of each kind; "${OTHERS}": all others. Without it: everything.`,
    ...map(MAX_CLIENTS, {
      ...map(MAX_KINDS, { enum: RIGHTS }),
      propertyNames: { pattern: OTHERS_OR_KIND },
    }),
  },
};

/**
 * The JSON Schema (2020-12) of a policy, for editors. It cannot tell paths that overlap, kinds that
 * are not declared, and options that do not go together: `parsePolicy` does.
 */
export const POLICY_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  title: 'Standin policy',
  ...object({
    $schema: { type: 'string', description: 'The file of this schema, for editors.' },
    ...PARTS,
  }),
  required: ['version'],
  dependentRequired: { fields: ['elsewhere'], elsewhere: ['fields'] },
};

function kind(shape: Shape) {
  const properties = { shape: { const: shape }, ...OPTIONS[shape] };
  return { title: shape, ...object(properties), required: ['shape'] };
}

function whole(minimum: number, maximum: number) {
  return { type: 'integer', minimum, maximum } as const;
}

/** An object with these properties and no others. */
function object<Properties>(properties: Properties) {
  return { type: 'object', properties, additionalProperties: false };
}

/** An object whose names the document chooses. */
function map(maxProperties: number, values: object) {
  return { type: 'object', minProperties: 1, maxProperties, additionalProperties: values };
}
