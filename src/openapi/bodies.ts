import { type FieldContent, type HealthFields, MAX_WORDS, SUCCESS } from '../public/schema.ts';
import type { DocumentSettings } from './errors.ts';
import {
  flag,
  list,
  object,
  only,
  type Properties,
  ref,
  type Schema,
  text,
  whole,
} from './schemas.ts';

/**
 * An object of the caller, nested at any depth, or an array of such objects. Said by what it is
 * not: of `oneOf`, generators make Java that does not compile, Go that needs another module, and
 * TypeScript that sends `{}`; of a list of types, they take the first. They cannot write a type for
 * a recursive schema either, so the description has the recursion.
 */
const records = (description: string): Schema => ({
  description,
  not: { type: ['string', 'number', 'boolean', 'null'] },
});

const CONTENT_SCHEMAS: Record<Exclude<FieldContent, 'data'>, Schema> = {
  status: only('success'),
  request_id: text('Id of this request, as in the header X-Request-Id.', { format: 'uuid' }),
  client_id: text('The client that the API key belongs to.', {
    pattern: '^[A-Za-z0-9]{1,32}_[0-9a-f]{24}$',
  }),
};

function health(status: 'ok' | 'error', description: string) {
  const fields: Record<HealthFields, Schema> = {
    status: only(status),
    timestamp: text('Time of the check, UTC.', { format: 'date-time' }),
    postgres: text('Whether the database answers.', { enum: ['ok', 'error'] }),
    version: text('Version of the interface.'),
  };
  return object(description, fields);
}

type SuccessOperation = keyof (typeof SUCCESS)['1.0.5'];

/** All schemas of the document, by name. */
export function schemasOf(
  { INTERFACE_VERSION: version }: DocumentSettings,
  kinds: readonly { readonly name: string; readonly schema: Schema }[],
): Record<string, Schema> {
  const success = (
    operation: SuccessOperation,
    data: string,
    description: string,
    more?: Properties,
  ) => {
    const fields = Object.entries(SUCCESS[version][operation]);
    const properties = fields.map(([name, content]) => [
      ...[name, content === 'data' ? ref(data) : CONTENT_SCHEMAS[content]],
    ]);
    return object(description, Object.fromEntries(properties), more);
  };
  return {
    ...recordSchemas(success),
    ...POLICY,
    Healthy: health('ok', 'This node accepts requests.'),
    Unhealthy: health('error', 'This node does not accept requests.'),
    Liveness: object('The process answers.', { status: only('ok') }),
    ...Object.fromEntries(kinds.map(({ name, schema }) => [name, schema])),
    ...textSchemas(success),
  };
}

type Success = (
  ...of: [operation: SuccessOperation, data: string, description: string, more?: Properties]
) => Schema;

/** The bodies of `/api/v1/tokenize`, `detokenize` and `lookup`. */
const recordSchemas = (success: Success): Record<string, Schema> => ({
  TokenizeRequest: object('Values. Fields beside `data` are ignored.', { data: ref('Values') }),
  TokenizeAnswer: success('tokenize', 'Tokens', 'Tokens for the values.'),
  DetokenizeRequest: object(
    'Tokens. Fields beside `data` are ignored, so you can send an answer of tokenize.',
    { data: ref('Tokens') },
  ),
  DetokenizeAnswer: success('detokenize', 'Values', 'The values of the tokens.', {
    unapplied: list(
      'The places that stay as they were sent. Only with `Prefer: handling=lenient`.',
      'Unapplied',
    ),
  }),
  Unapplied: object('A place that stays as it was sent.', {
    path: text('Such as `data.customer.email`.'),
    reason: text(
      'The token is not known, the client may not see values of its kind, or the request excludes it.',
      { enum: ['unknown', 'forbidden', 'excluded'] },
    ),
  }),
  LookupRequest: object('Values. Fields beside `data` are ignored.', { data: ref('Values') }),
  LookupAnswer: success('lookup', 'FoundTokens', 'The tokens that values have.'),
  Values: records(
    'An object: fields with names of your own. Each is a value (a string) or an array or object with values at any depth. A value stays byte for byte: also "", spaces, NUL and emoji. With a policy that names fields, only their strings are values, unless `elsewhere` says more; numbers, `true`, `false` and null stay as they are, and an array of such objects may be sent.',
  ),
  Tokens: records(
    'The same fields, arrays and objects, with a token in the place of each value: printable ASCII in the shape of the value, `_` and the suffix. With a policy that names fields, everything else is as it was sent.',
  ),
  FoundTokens: records(
    'The same fields, arrays and objects, with a token in the place of each value that has one, and null in the place of each other value.',
  ),
});

const POLICY: Record<string, Schema> = {
  Policy: object('What the policy in force names.', {
    version: whole('Version of the policy.', 1),
    fields: list('Empty: every string is a value of the kind `text`.', 'PolicyField'),
    elsewhere: {
      description:
        'Strings at all other paths: `pass` (they go through unchanged, in clear), `refuse` (they make the request fail) or `tokenize` (they are tokenized, as `text`).',
      enum: ['pass', 'refuse', 'tokenize'],
    },
  }),
  PolicyField: object('Strings that are tokenized.', {
    path: text('Where they are in `data`: `customer.emails[*]`.'),
    kind: text('The name of their kind.'),
  }),
};

const TEXT_OF_VALUES = object(
  'A text with values in it. Without `spans`, or with `detect`, the detectors of the policy find them.',
  { text: text('Well-formed Unicode.') },
  {
    spans: list('Where values are. They do not overlap.', 'Span'),
    words: {
      type: 'object',
      additionalProperties: { type: 'string', minLength: 1 },
      maxProperties: MAX_WORDS,
      description: 'Words that are values, each with its kind. They are found in any case.',
    },
    detect: flag('Whether the detectors look for more values than `spans` and `words` name.'),
    // A list of types would be the first one to generators.
    conversation: {
      description:
        'true begins a conversation; a string adds the tokens to an earlier one. The response has it.',
      not: { type: ['number', 'object', 'array', 'null'] },
    },
  },
);

const PLACE = {
  start: whole('Of its first code point.', 0),
  end: whole('Of the code point after it.', 0),
};

/** The bodies of `/api/v1/text/...`: texts with personal data in them. */
const textSchemas = (success: Success): Record<string, Schema> => ({
  TokenizeTextRequest: object('A text.', { data: ref('TextOfValues') }),
  TokenizeTextAnswer: success('tokenize', 'SpannedText', 'The text with tokens.'),
  DetokenizeTextRequest: object('A text.', { data: ref('TokenizedText') }),
  DetokenizeTextAnswer: alwaysUnapplied(
    success('detokenize', 'RestoredText', 'The text with values.', {
      unapplied: list(
        'Places like `data.text[5:19]`, in code points, that stay as they were sent.',
        'Unapplied',
      ),
    }),
  ),
  TextOfValues: TEXT_OF_VALUES,
  SpannedText: object(
    'A text and the places of tokens in it.',
    { text: text('Well-formed Unicode.'), spans: list('In the order of the text.', 'FoundSpan') },
    { conversation: text('For the next request, which detokenize takes, too.') },
  ),
  Span: object('A place in a text.', {
    ...PLACE,
    kind: text('A kind of the policy, of shape `word` with suffix.', { minLength: 1 }),
  }),
  FoundSpan: object(
    'The place of a token in a text.',
    { ...PLACE, kind: text('A kind of the policy.', { minLength: 1 }) },
    { original: ref('OriginalPlace') },
  ),
  OriginalPlace: object('If Standin found the value: its place in the text of the request.', PLACE),
  TokenizedText: {
    ...object(
      'A text with tokens in it, or a piece of one.',
      { text: text('The text.') },
      {
        more: flag('Whether this is a piece, and another one follows.'),
        only: list('The tokens that come back, beside those of `conversation`.', {
          type: 'string',
        }),
        conversation: text('From a tokenize: its tokens come back.'),
      },
    ),
    additionalProperties: false,
  },
  RestoredText: object(
    'A text with values in the places of tokens.',
    { text: text('The text, without `rest`.') },
    {
      rest: text(
        'With `more`: the end of the piece, which may be the beginning of a token. Send it before the next piece.',
      ),
    },
  ),
});

function alwaysUnapplied({ required, ...schema }: Schema): Schema {
  return { ...schema, required: [...(required as string[]), 'unapplied'] };
}
