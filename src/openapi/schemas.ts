import type { FieldContent, HealthFields } from '../http/schema.ts';
import { type ErrorKind, errorKinds } from './errors.ts';
import type { Facts, Schema } from './facts.ts';

/**
 * A reference to a schema of the document. Nothing may stand beside it, because generators of
 * clients drop that. So each schema is complete, and has a name.
 */
export const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });

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

const VALUES = records(
  'An object: fields with names of your own. Each is a value (a string) or an array or object with values at any depth. A value stays byte for byte: also "", spaces, NUL and emoji. With a policy that names fields, only their strings are values, unless `elsewhere` says more; numbers, `true`, `false` and null stay as they are, and an array of such objects may be sent.',
);

const TOKENS = records(
  'The same fields, arrays and objects, with a token in the place of each value: printable ASCII in the shape of the value, `_` and the suffix. With a policy that names fields, everything else is as it was sent.',
);

const FOUND = records(
  'The same fields, arrays and objects, with a token in the place of each value that has one, and null in the place of each other value.',
);

const UNAPPLIED: Schema = {
  type: 'array',
  description: 'The places that stay as they were sent. Only with `Prefer: handling=lenient`.',
  items: ref('Unapplied'),
};

const only = (text: string): Schema => ({ type: 'string', const: text });

const CONTENT_SCHEMAS: Record<Exclude<FieldContent, 'data'>, Schema> = {
  status: only('success'),
  request_id: {
    type: 'string',
    description: 'Id of this request, as in the header X-Request-Id.',
    format: 'uuid',
  },
  client_id: {
    type: 'string',
    description: 'The client that the API key belongs to.',
    pattern: '^[A-Za-z0-9]{1,32}_[0-9a-f]{24}$',
  },
};

/** An object whose fields are all required. */
export const answer = <T extends Readonly<Record<string, Schema>>>(
  description: string,
  properties: T,
) => ({
  type: 'object',
  description,
  required: Object.keys(properties),
  properties,
});

export function success(
  fields: Readonly<Record<string, FieldContent>>,
  data: Schema,
  description: string,
): Schema {
  const properties = Object.entries(fields).map(([name, content]) => [
    name,
    content === 'data' ? data : CONTENT_SCHEMAS[content],
  ]);
  return answer(description, Object.fromEntries(properties));
}

function withUnapplied({ properties, ...schema }: Schema): Schema {
  return { ...schema, properties: { ...(properties as Schema), unapplied: UNAPPLIED } };
}

function health(status: 'ok' | 'error', description: string) {
  const fields: Record<HealthFields, Schema> = {
    status: only(status),
    timestamp: { type: 'string', description: 'Time of the check, UTC.', format: 'date-time' },
    postgres: {
      type: 'string',
      description: 'Whether the database answers.',
      enum: ['ok', 'error'],
    },
    version: { type: 'string', description: 'Version of the interface.' },
  };
  return answer(description, fields);
}

const MESSAGE: Schema = {
  type: 'string',
  description:
    'For people; its words may change. It says what to do, and names the place in the request, never the value.',
};

const RETRY_AFTER: Schema = {
  type: 'integer',
  description: 'Seconds to wait, as in the header Retry-After.',
  minimum: 1,
};

function errorSchema({ codes, meaning, hasMessage, isRetried }: ErrorKind): Schema {
  const code = codes.length === 1 ? only(codes[0]!) : { type: 'string', enum: codes };
  return answer(meaning, {
    error: { ...code, description: 'The code to decide on.' },
    ...(hasMessage ? { message: MESSAGE } : {}),
    ...(isRetried ? { retry_after: RETRY_AFTER } : {}),
  });
}

/** All schemas of the document, by name. */
export function schemasOf(facts: Facts): Record<string, Schema> {
  const { answers } = facts;
  const kinds = Object.values(errorKinds(facts));
  return {
    TokenizeRequest: answer('Values. Fields beside `data` are ignored.', { data: ref('Values') }),
    TokenizeAnswer: success(answers.tokenize, ref('Tokens'), 'Tokens for the values.'),
    DetokenizeRequest: answer(
      'Tokens. Fields beside `data` are ignored, so you can send an answer of tokenize.',
      { data: ref('Tokens') },
    ),
    DetokenizeAnswer: withUnapplied(
      success(answers.detokenize, ref('Values'), 'The values of the tokens.'),
    ),
    Unapplied: answer('A place that stays as it was sent.', {
      path: { type: 'string', description: 'Such as `data.customer.email`.' },
      reason: {
        type: 'string',
        description: 'The token is not known, or the client may not see values of its kind.',
        enum: ['unknown', 'forbidden'],
      },
    }),
    LookupRequest: answer('Values. Fields beside `data` are ignored.', { data: ref('Values') }),
    LookupAnswer: success(answers.lookup, ref('FoundTokens'), 'The tokens that values have.'),
    Values: VALUES,
    Tokens: TOKENS,
    FoundTokens: FOUND,
    Policy: answer('What the policy in force names.', {
      version: { type: 'integer', description: 'Version of the policy.', minimum: 1 },
      fields: {
        type: 'array',
        description: 'Empty: every string is a value of the kind `text`.',
        items: ref('PolicyField'),
      },
      elsewhere: {
        description:
          'Strings at all other paths: `pass` (they go through unchanged, in clear), `refuse` (they make the request fail) or `tokenize` (they are tokenized, as `text`).',
        enum: ['pass', 'refuse', 'tokenize'],
      },
    }),
    PolicyField: answer('Strings that are tokenized.', {
      path: { type: 'string', description: 'Where they are in `data`: `customer.emails[*]`.' },
      kind: { type: 'string', description: 'The name of their kind.' },
    }),
    Healthy: health('ok', 'This node accepts requests.'),
    Unhealthy: health('error', 'This node does not accept requests.'),
    Liveness: answer('The process answers.', { status: only('ok') }),
    ...Object.fromEntries(kinds.map((kind) => [kind.name, errorSchema(kind)])),
  };
}
