import type { CallerErrorCode } from '../errors.ts';
import type { ClientOperation } from '../limits/client-limits.ts';
import { type LimitName, MAX_VALUE_BYTES } from '../types.ts';

/**
 * The limits and names of the interface, declared once: for the code that checks requests and
 * writes answers, and for the OpenAPI document. The checks themselves are hand-written
 * (docs/decisions/0020).
 */
export { MAX_VALUE_BYTES };

export type InterfaceVersion = '1.0.5' | '1.0.4';

export const MAX_NAME_BYTES = 256;
/** Objects, lists and names in a body; in a larger one, one for so many bytes. */
export const MAX_PARTS = 100_000;
export const BYTES_A_PART = 10;
/** Different names of them. JSON.parse takes ten times as long for one as for a repeated one. */
export const MAX_NAMES = 15_000;
export const BYTES_A_BODY_NAME = 70;
/** Levels of nested objects and arrays; `data` is the first. */
export const MAX_DEPTH = 16;
/**
 * Limit for the JSON of the values in an answer, in body limits. One token may be in all fields, so
 * a body of 1 MiB could ask for 640 MB.
 */
export const MAX_RESPONSE_BODIES = 16;
/** Words that a caller can list for one text. */
export const MAX_WORDS = 1_000;
/** Careless code that copies an object with this name would change a prototype. */
export const FORBIDDEN_NAME = '__proto__';

/** The path that LiteLLM appends to the base of a guardrail. */
export const GUARDRAIL = '/beta/litellm_basic_guardrail_api';

/** The paths of the public listener with their methods, as the Allow header lists them. */
export const METHODS: Readonly<Record<string, string>> = {
  // No prototype, so that a path like /constructor is not found.
  __proto__: null as never,
  '/api/v1/tokenize': 'POST',
  '/api/v1/detokenize': 'POST',
  '/api/v1/lookup': 'POST',
  '/api/v1/text/tokenize': 'POST',
  '/api/v1/text/detokenize': 'POST',
  '/api/v1/policy': 'GET, HEAD',
  '/health': 'GET, HEAD',
  '/health/live': 'GET, HEAD',
};

/** A Map, because a look-up of a property makes each path of a request a name for V8 first. */
const ROUTES = new Map([...Object.keys(METHODS), GUARDRAIL].map((path) => [path, path]));

/**
 * The path in a request target, compared letter for letter; undefined when this listener does not
 * have it. Routing, log, metrics, shedding and audit all use this function. The router alone would
 * decode `/api/v1/%64etokenize` and cut `/api/v1/detokenize#x`.
 */
export function routeOf(target: string): string | undefined {
  const query = target.indexOf('?');
  const path = query === -1 ? target : target.slice(0, query);
  return ROUTES.get(path);
}

/** The methods of a route. The contract of GUARDRAIL is LiteLLM's, and few nodes serve it. */
export function methodsOf(route: string): string {
  return route === GUARDRAIL ? 'POST' : METHODS[route]!;
}

/** Ends every body, so that a terminal shows what follows on a line of its own. */
export const LINE_END = '\n';
export const NO_STORE_HEADERS = ['Cache-Control', 'no-store', 'X-Content-Type-Options', 'nosniff'];
export const JSON_HEADERS = [
  'Content-Type',
  'application/json; charset=utf-8',
  ...NO_STORE_HEADERS,
];
/** Says how many strings were replaced, and how many passed in clear. */
export const STRINGS_HEADER = 'Standin-Strings';

/** The fields of /health, in order. */
export type HealthFields = 'status' | 'timestamp' | 'postgres' | 'version';

/** Content of a field in a successful response. */
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
    lookup: { data: 'data', request_id: 'request_id', client_id: 'client_id' },
    detokenize: {
      data: 'data',
      status: 'status',
      request_id: 'request_id',
      client_id: 'client_id',
    },
  },
  '1.0.4': {
    tokenize: { data: 'data', Request_id: 'request_id' },
    lookup: { data: 'data', Request_id: 'request_id' },
    detokenize: { data: 'data', Status: 'status', Request_id: 'request_id' },
  },
};

export const LIMIT_CODES = {
  '1.0.5': 'user_limit',
  '1.0.4': 'rate_limit',
} as const satisfies Record<InterfaceVersion, CallerErrorCode>;

/** Names of the limits in headers: strings of a structured field (RFC 9651). */
export const LIMIT_NAMES: Readonly<Record<LimitName, string>> = {
  requests: '"requests"',
  detokenize: '"detokenize"',
  lookup: '"lookup"',
  unknown_tokens: '"unknown-tokens"',
};

/** Messages that depend on the request or a setting. The others are in CALLER_ERRORS. */
export const MESSAGES = {
  forbidden: (operation: ClientOperation) =>
    `this client may not ${operation}; an operator can allow it: standin client update CLIENT --can tokenize,detokenize${operation === 'lookup' ? ',lookup' : ''}`,
  forbidden_kind: (path: string, kind: string) =>
    `${path}: this client may not see values of kind ${kind}; an operator can allow it in the policy`,
  no_policy: 'the vault has no policy; an operator can apply one: standin policy apply FILE',
  method_not_allowed: (methods: string) => `this path takes ${methods}`,
  payload_too_large: (bodyLimit: number) =>
    `the body has more than ${bodyLimit} bytes (BODY_LIMIT); send fewer values in a request`,
} as const;
