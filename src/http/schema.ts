import type { CallerErrorCode } from '../errors.ts';
import type { ClientOperation } from '../service/limits/client-limits.ts';
import { MAX_VALUE_BYTES } from '../service/value-bytes.ts';
import type { InterfaceVersion } from './context.ts';

/**
 * The one definition of requests and answers. The code that checks requests and writes answers uses
 * it, and so does the OpenAPI document. The checks themselves are hand-written
 * (docs/decisions/0014-openapi.md).
 */
export { MAX_VALUE_BYTES };
export const MAX_NAME_BYTES = 256;
/** Levels of nested objects and arrays; `data` is the first. */
export const MAX_DEPTH = 16;
/**
 * Limit for the JSON of the values in an answer, in body limits. One token may be in all fields, so
 * a body of 1 MiB could ask for 640 MB.
 */
export const MAX_ANSWER_BODIES = 16;
/** Careless code that copies an object with this name would change a prototype. */
export const FORBIDDEN_NAME = '__proto__';

/** Content of a field in a successful answer. */
export type FieldContent = 'data' | 'status' | 'request_id' | 'client_id';

/** The fields of a successful answer, in order. */
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

/** The field of an error besides its code. */
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

/** A reference to a schema of the document. */
export const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });

/** Schemas of strings in nested objects and arrays. */
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
    description: 'Id of this request, as in the header X-Request-Id.',
    format: 'uuid',
  },
  client_id: {
    type: 'string',
    description: 'The client that the API key belongs to.',
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
  description: 'Whether this node accepts requests.',
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
          'For people; its words may change. It names the place in the request, never the value. Only with `invalid_type` and `internal_error`.',
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
export function schemasOf(
  version: InterfaceVersion,
  errorCodes: readonly string[],
): Record<string, Schema> {
  return {
    TokenizeRequest: request('Values', 'Fields beside `data` are ignored.'),
    DetokenizeRequest: request(
      'Values',
      'Tokens in the places of values. Fields beside `data` are ignored, so you can send an answer of tokenize to detokenize.',
    ),
    TokenizeAnswer: success(SUCCESS[version].tokenize, ref('Tokens')),
    DetokenizeAnswer: success(SUCCESS[version].detokenize, ref('Values')),
    ...fieldSchemas(
      'Values',
      VALUE,
      `Values under your own field names: any name except \`${FORBIDDEN_NAME}\`.`,
    ),
    ...fieldSchemas('Tokens', TOKEN, 'Tokens in the places of the values.'),
    Health: HEALTH,
    Liveness: LIVENESS,
    Error: errorSchema(errorCodes),
  };
}
