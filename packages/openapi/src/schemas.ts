import type { Facts, FieldContent, Limits, Schema } from './facts.ts';

/** A reference to a schema of the document. */
export const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });

/** Schemas of strings in nested objects and arrays. */
function fieldSchemas(
  { nameBytes, forbiddenName }: Limits,
  name: string,
  leaf: Schema,
  description: string,
): Record<string, Schema> {
  const inner = name.replace(/s$/, '');
  return {
    [name]: {
      type: 'object',
      description,
      propertyNames: { type: 'string', maxLength: nameBytes, not: { const: forbiddenName } },
      additionalProperties: ref(inner),
    },
    [inner]: {
      description: 'A string, or an array or object of them.',
      oneOf: [
        leaf,
        { type: 'array', description: 'Its strings are replaced.', items: ref(inner) },
        ref(name),
      ],
    },
  };
}

const valueSchema = ({ valueBytes }: Limits): Schema => ({
  type: 'string',
  description: 'A value, byte for byte: also "", spaces, NUL and emoji.',
  maxLength: valueBytes,
});

const TOKEN: Schema = {
  type: 'string',
  description: 'A token: printable ASCII in the shape of the value, `_` and the suffix.',
  pattern: '^[ -~]+_[A-Za-z0-9]{1,16}$',
};

const CONTENT_SCHEMAS: Record<Exclude<FieldContent, 'data'>, Schema> = {
  status: { type: 'string', description: 'Always `success`.', const: 'success' },
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

function request(name: string, description: string): Schema {
  return {
    type: 'object',
    description,
    required: ['data'],
    properties: { data: ref(name) },
  };
}

function success(fields: Readonly<Record<string, FieldContent>>, data: Schema): Schema {
  const properties = Object.entries(fields).map(([name, content]) => [
    name,
    content === 'data' ? data : CONTENT_SCHEMAS[content],
  ]);
  return {
    type: 'object',
    required: Object.keys(fields),
    properties: Object.fromEntries(properties),
  };
}

const OK = { type: 'string', enum: ['ok', 'error'] };

const HEALTH = {
  type: 'object',
  description: 'Whether this node accepts requests.',
  required: ['status', 'timestamp', 'postgres', 'version'],
  properties: {
    status: { ...OK, description: '`ok`: send requests.' },
    timestamp: { type: 'string', description: 'Time of the check, UTC.', format: 'date-time' },
    postgres: { ...OK, description: 'Whether the database answers.' },
    version: { type: 'string', description: 'Version of the interface.' },
  },
} as const;

/** The fields of /health. */
export type HealthFields = keyof (typeof HEALTH)['properties'];

const LIVENESS = {
  type: 'object',
  description: 'The process answers.',
  required: ['status'],
  properties: { status: { type: 'string', description: 'Always `ok`.', const: 'ok' } },
} as const;

/** @param codes all error codes of this version */
function errorSchema(codes: readonly string[]): Schema {
  return {
    type: 'object',
    description: 'Every answer that is not a success.',
    required: ['error'],
    properties: {
      error: { type: 'string', description: 'The code to decide on.', enum: codes },
      message: {
        type: 'string',
        description:
          'For people; its words may change. It says what to do, and names the place in the request, never the value. Not with 401 and 429.',
      },
      retry_after: {
        type: 'integer',
        description: 'Seconds to wait, as in the header Retry-After. Only with 429 and 503.',
        minimum: 1,
      },
    },
  };
}

/** All schemas of the document, by name. */
export function schemasOf({ answers, errors, limits }: Facts): Record<string, Schema> {
  return {
    TokenizeRequest: request('Values', 'Fields beside `data` are ignored.'),
    DetokenizeRequest: request(
      'Values',
      'Tokens in the places of values. Fields beside `data` are ignored, so you can send an answer of tokenize to detokenize.',
    ),
    TokenizeAnswer: success(answers.tokenize, ref('Tokens')),
    DetokenizeAnswer: success(answers.detokenize, ref('Values')),
    ...fieldSchemas(
      limits,
      'Values',
      valueSchema(limits),
      `Values under your own field names: any name except \`${limits.forbiddenName}\`.`,
    ),
    ...fieldSchemas(limits, 'Tokens', TOKEN, 'Tokens in the places of the values.'),
    Health: HEALTH,
    Liveness: LIVENESS,
    Error: errorSchema(Object.keys(errors)),
  };
}
