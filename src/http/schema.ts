import type { CallerErrorCode } from '../errors.ts';
import type { ClientOperation } from '../service/limits/client-limits.ts';
import { MAX_VALUE_BYTES } from '../service/value-bytes.ts';
import type { InterfaceVersion } from './context.ts';

/**
 * What the service takes and gives, once: the code that checks requests and writes answers reads it
 * from here, and so does the OpenAPI document. The checks themselves are written by hand
 * (docs/decisions/0014-openapi.md).
 */
export { MAX_VALUE_BYTES };
export const MAX_NAME_BYTES = 256;
/** Of objects and arrays inside each other; `data` is the first. */
export const MAX_DEPTH = 16;
/**
 * Of the values in an answer, as bytes of JSON: one token may be in all fields, so a body of 1 MiB
 * could ask for values of 640 MB.
 */
export const MAX_ANSWER_BODIES = 16;
/** Code that copies objects carelessly would change their prototype with it. */
export const FORBIDDEN_NAME = '__proto__';

/** What is in a field of a success. */
export type FieldContent = 'data' | 'status' | 'request_id' | 'client_id';

/** The fields of a success in their order. */
export const SUCCESS: Readonly<
  Record<
    InterfaceVersion,
    Readonly<Record<ClientOperation, Readonly<Record<string, FieldContent>>>>
  >
> = {
  '1.0.5': {
    tokenize: { data: 'data', request_id: 'request_id', client_id: 'client_id' },
    detokenize: {
      data: 'data',
      status: 'status',
      request_id: 'request_id',
      client_id: 'client_id',
    },
  },
  '1.0.4': {
    tokenize: { data: 'data', Request_id: 'request_id' },
    detokenize: { data: 'data', Status: 'status', Request_id: 'request_id' },
  },
};

export const LIMIT_CODES = {
  '1.0.5': 'user_limit',
  '1.0.4': 'rate_limit',
} as const satisfies Record<InterfaceVersion, CallerErrorCode>;

/** What an error has beside its code. */
export const ERROR_FIELDS: Readonly<
  Partial<Record<CallerErrorCode | 'internal_error', 'message' | 'retry_after'>>
> = {
  invalid_type: 'message',
  internal_error: 'message',
  user_limit: 'retry_after',
  rate_limit: 'retry_after',
  overloaded: 'retry_after',
};

/** A JSON Schema (2020-12), as plain data. */
export type Schema = Readonly<Record<string, unknown>>;

/** Where the schemas are in the document. */
export const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });

/** JSON of strings: objects and arrays as deep as it goes. */
function fieldSchemas(name: string, leaf: Schema, description: string): Record<string, Schema> {
  const inner = name.replace(/s$/, '');
  return {
    [name]: {
      type: 'object',
      description,
      propertyNames: { type: 'string', maxLength: MAX_NAME_BYTES, not: { const: FORBIDDEN_NAME } },
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

const VALUE: Schema = {
  type: 'string',
  description: 'A value, byte for byte: also "", spaces, NUL and emoji.',
  maxLength: MAX_VALUE_BYTES,
};

const TOKEN: Schema = {
  type: 'string',
  description: 'A token: printable ASCII in the shape of the value, `_` and the suffix.',
  pattern: '^[ -~]+_[a-z]{1,16}$',
};

const CONTENT_SCHEMAS: Record<Exclude<FieldContent, 'data'>, Schema> = {
  status: { type: 'string', description: 'Always `success`.', const: 'success' },
  request_id: {
    type: 'string',
    description: 'Of this request; the same as in the header X-Request-Id.',
    format: 'uuid',
  },
  client_id: {
    type: 'string',
    description: 'Whose API key it was.',
    pattern: '^[a-z0-9]{1,32}_[0-9a-f]{24}$',
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

export const HEALTH = {
  type: 'object',
  description: 'Whether requests can be sent here.',
  required: ['status', 'timestamp', 'postgres', 'version'],
  properties: {
    status: { ...OK, description: '`ok`: send requests.' },
    timestamp: { type: 'string', description: 'Time of the check, UTC.', format: 'date-time' },
    postgres: { ...OK, description: 'Whether the database answers.' },
    version: { type: 'string', description: 'Version of the interface.' },
  },
} as const;

export const LIVENESS = {
  type: 'object',
  description: 'That the process answers.',
  required: ['status'],
  properties: { status: { type: 'string', description: 'Always `ok`.', const: 'ok' } },
} as const;

/** @param codes all that the error answers of this version can have */
function errorSchema(codes: readonly string[]): Schema {
  return {
    type: 'object',
    description: 'Every answer that is not a success.',
    required: ['error'],
    properties: {
      error: { type: 'string', description: 'What to decide on.', enum: codes },
      message: {
        type: 'string',
        description:
          'For people; it may change. It names the place in the request, never the value. Of `invalid_type` and `internal_error` only.',
      },
      retry_after: {
        type: 'integer',
        description: 'Seconds to wait; the same as in the header Retry-After. Of 429 and 503 only.',
        minimum: 1,
      },
    },
  };
}

/** All schemas of the document, by name. */
export function schemasOf(
  version: InterfaceVersion,
  errorCodes: readonly string[],
): Record<string, Schema> {
  return {
    TokenizeRequest: request('Values', 'Fields beside `data` are ignored.'),
    DetokenizeRequest: request(
      'Values',
      'Tokens in the places of values. Fields beside `data` are ignored: an answer of tokenize is a request of detokenize.',
    ),
    TokenizeAnswer: success(SUCCESS[version].tokenize, ref('Tokens')),
    DetokenizeAnswer: success(SUCCESS[version].detokenize, ref('Values')),
    ...fieldSchemas(
      'Values',
      VALUE,
      `Values under field names of your own, any but \`${FORBIDDEN_NAME}\`.`,
    ),
    ...fieldSchemas('Tokens', TOKEN, 'Tokens in the places of the values.'),
    Health: HEALTH,
    Liveness: LIVENESS,
    Error: errorSchema(errorCodes),
  };
}
