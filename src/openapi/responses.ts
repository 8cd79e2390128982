import { LIMIT_NAMES, STRINGS_HEADER } from '../public/schema.ts';
import { type DocumentSettings, type ErrorKind, type Examples, errorKinds } from './errors.ts';
import { ref, type Schema } from './schemas.ts';

export interface Header {
  readonly description: string;
  readonly schema: Schema;
  readonly required?: true;
  readonly example: unknown;
}

/** Pattern of a structured field (RFC 9651), as in draft-ietf-httpapi-ratelimit-headers. */
const limitList = (count: string, seconds: string): string => {
  const item = `(${Object.values(LIMIT_NAMES).join('|')});${count}=\\d+;${seconds}=\\d+`;
  return `^${item}(, ${item})*$`;
};

const always = (description: string, schema: Schema, example: unknown) => ({
  ...{ description, schema, required: true as const, example },
});

export const HEADERS = {
  'X-Request-Id': always(
    'Identifies the request in the log of the service.',
    { type: 'string', format: 'uuid' },
    '63dc01d5-b356-45b6-8fc3-4853079f7d45',
  ),
  'Cache-Control': always(
    'Caches must not keep the answer.',
    { type: 'string', const: 'no-store' },
    'no-store',
  ),
  'X-Content-Type-Options': always(
    'The body is JSON, whatever it looks like.',
    { type: 'string', const: 'nosniff' },
    'nosniff',
  ),
  'Retry-After': always('Seconds to wait.', { type: 'integer', minimum: 1 }, 1),
  'WWW-Authenticate': always(
    'RFC 6750; with `error` and what is wrong, when a credential was sent.',
    {
      type: 'string',
      pattern: '^Bearer realm="standin"(, error="invalid_token", error_description="[^"]+")?$',
    },
    'Bearer realm="standin", error="invalid_token", error_description="no Bearer before the API key"',
  ),
  Allow: always('The methods of the path.', { type: 'string' }, 'POST'),
  'RateLimit-Policy': {
    description:
      'The limits of the client for this operation: `q` requests (of `unknown-tokens`: tokens) in `w` seconds. Limits that are off are not listed.',
    schema: { type: 'string', pattern: limitList('q', 'w') },
    example: '"detokenize";q=500;w=1, "unknown-tokens";q=60;w=60',
  },
  RateLimit: {
    description:
      'The state of a limit: `r` are left, and no more come for `t` seconds. In a 429, it is the limit that refused the request; otherwise the limit of requests.',
    schema: { type: 'string', pattern: limitList('r', 't') },
    example: '"detokenize";r=499;t=1',
  },
  ETag: always(
    'Identifies the policy, for If-Match.',
    { type: 'string', pattern: '^"[0-9a-f]{64}"$' },
    `"${'0123456789abcdef'.repeat(4)}"`,
  ),
  'Preference-Applied': {
    description: 'RFC 7240: the answer may have places that stay as they were sent.',
    schema: { type: 'string', const: 'handling=lenient' },
    example: 'handling=lenient',
  },
  [STRINGS_HEADER]: {
    description:
      'RFC 9651. Only under a policy with fields: how many strings of `data` were replaced, and how many passed unchanged, in clear. Blank strings do not count.',
    schema: { type: 'string', pattern: '^replaced=\\d+, passed=\\d+$' },
    example: 'replaced=2, passed=1',
  },
} as const satisfies Record<string, Header>;

type HeaderName = keyof typeof HEADERS;

/** A body of JSON. The admin API shows no examples. */
export interface Media {
  readonly schema: Schema;
  readonly examples?: Examples;
}

export interface Response {
  readonly description: string;
  readonly headers: Readonly<Record<string, Schema>>;
  readonly content: { readonly 'application/json': Media };
}

const EVERY: readonly HeaderName[] = ['X-Request-Id', 'Cache-Control', 'X-Content-Type-Options'];
export const HEADERS_OF_ALL = Object.fromEntries(EVERY.map((name) => [name, HEADERS[name]]));
/** Headers of answers to known clients. */
export const OF_LIMITS: readonly HeaderName[] = ['RateLimit-Policy', 'RateLimit'];
/** Headers of answers with `data`. */
export const OF_DATA: readonly HeaderName[] = [...OF_LIMITS, STRINGS_HEADER];
/** Codes of errors that only known clients get. */
const KNOWN: readonly string[] = [
  ...['invalid_type', 'precondition_failed', 'payload_too_large', 'unsupported_media_type'],
  ...['user_limit', 'rate_limit', 'internal_error', 'overloaded'],
];

export function response(
  description: string,
  schema: string,
  examples?: Examples,
  headers: readonly HeaderName[] = [],
): Response {
  return {
    description,
    headers: Object.fromEntries(
      [...EVERY, ...headers].map((name) => [name, { $ref: `#/components/headers/${name}` }]),
    ),
    content: { 'application/json': { schema: ref(schema), ...(examples && { examples }) } },
  };
}

/** A text that a request has in a header or in its path. */
export const parameter = (
  name: string,
  description: string,
  example?: string,
  place: 'header' | 'path' = 'header',
): Schema => ({
  ...{ name, in: place, description, ...(place === 'path' && { required: true }) },
  ...{ schema: { type: 'string' }, ...(example !== undefined && { example }) },
});

/** One response for each kind of error. */
export function errorResponses(settings: DocumentSettings): Record<string, Response> {
  return Object.fromEntries(
    Object.entries(errorKinds(settings)).map(([code, kind]) => [
      kind.name,
      response(kind.meaning, kind.name, kind.examples, headersOf(code, kind)),
    ]),
  );
}

function headersOf(code: string, { isRetried }: ErrorKind): readonly HeaderName[] {
  return [
    ...(code === 'unauthorized' ? (['WWW-Authenticate'] as const) : []),
    ...(code === 'method_not_allowed' ? (['Allow'] as const) : []),
    ...(KNOWN.includes(code) ? OF_LIMITS : []),
    ...(isRetried ? (['Retry-After'] as const) : []),
  ];
}

/** References to the responses of these errors, by status. */
export function errorReferences(
  settings: DocumentSettings,
  codes: readonly string[],
): Record<string, { readonly $ref: string }> {
  const kinds = errorKinds(settings);
  return Object.fromEntries(
    codes.map((code) => {
      const { name, status } = kinds[code]!;
      return [String(status), { $ref: `#/components/responses/${name}` }];
    }),
  );
}
