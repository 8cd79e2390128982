import {
  ForbiddenError,
  InvalidValueError,
  LimitError,
  StandinError,
  UnauthorizedError,
} from '#client';

/** The proxy refuses a request, or cannot answer it. The message has no value and no key. */
export class ProxyError extends Error {
  readonly status: number;
  readonly retryAfterMs: number | undefined;

  constructor(status: number, message: string, retryAfterMs?: number) {
    super(message);
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

/** The names that the two APIs have for a status; all others are failures of the server. */
const TYPES: Readonly<Record<number, readonly [openai: string, anthropic: string]>> = {
  400: ['invalid_request_error', 'invalid_request_error'],
  401: ['authentication_error', 'authentication_error'],
  403: ['permission_error', 'permission_error'],
  404: ['invalid_request_error', 'not_found_error'],
  413: ['invalid_request_error', 'request_too_large'],
  429: ['rate_limit_error', 'rate_limit_error'],
};
const OTHER = ['server_error', 'api_error'] as const;

/** A failure in the form of the API of this path. */
export function failureBody(path: string, { status, message }: ProxyError) {
  const [openai, anthropic] = TYPES[status] ?? OTHER;
  if (path === '/v1/messages') return { type: 'error', error: { type: anthropic, message } };
  return { error: { message, type: openai, param: null, code: `standin_${status}` } };
}

/** The last event of a stream that failed. */
export function failureEvent(path: string, failure: ProxyError) {
  const body = failureBody(path, failure);
  if (path === '/v1/chat/completions') return { data: body };
  const { message } = failure;
  const ofResponses = { type: 'error', code: `standin_${failure.status}`, message, param: null };
  return { name: 'error', data: path === '/v1/responses' ? { ...ofResponses, ...body } : body };
}

const UNREACHABLE = 'Nothing was sent to the provider that Standin did not check first';

/** What the caller is told of an error. Errors of others than Standin stay unquoted. */
export function failureOf(error: unknown): ProxyError {
  if (error instanceof ProxyError) return error;
  if (error instanceof LimitError)
    return new ProxyError(429, `Standin: ${error.message}`, error.retryAfterMs);
  if (error instanceof StandinError) {
    const status = statusOf(error);
    return new ProxyError(status, `Standin: ${error.message}. ${UNREACHABLE}.`);
  }
  // The stack is full: of lists in lists, or of millions of escapes in one text.
  if (error instanceof RangeError)
    return new ProxyError(413, `The request is too deep or too long. ${UNREACHABLE}.`);
  return new ProxyError(500, `The proxy failed (${nameOf(error)}). ${UNREACHABLE}.`);
}

function statusOf(error: StandinError): number {
  if (error instanceof UnauthorizedError) return 401;
  if (error instanceof ForbiddenError) return 403;
  return error instanceof InvalidValueError || error.status === 413 ? 400 : 503;
}

function nameOf(error: unknown): string {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
  return [code, name].find((one) => typeof one === 'string' && /^\w{1,60}$/.test(one)) as string;
}
