/** The interface defines the body of a 401 and a 429: they have no message. */
const NO_MESSAGE = '';

/**
 * Every error answer of the service. A test compares `docs/errors.md` with this table both ways.
 * Errors of the caller are rows of CALLER_ERRORS. Our own are `internal_error` with a row of
 * INTERNAL_REASONS. `message` says what to do; a CallerError can say it more precisely.
 */
export const CALLER_ERRORS = {
  bad_request: {
    status: 400,
    when: 'the request is not valid HTTP',
    message: 'the request is not valid HTTP/1.1: check its first line, headers and length',
  },
  invalid_type: {
    status: 400,
    when: 'the body, a field or a value is not acceptable, or a token is not known',
    message: 'the body is not acceptable',
  },
  unauthorized: {
    status: 401,
    when: 'the API key is missing, malformed, unknown, expired or revoked',
    message: NO_MESSAGE,
  },
  forbidden: {
    status: 403,
    when: 'the client may not do this operation',
    message: 'this client may not do this operation',
  },
  not_found: {
    status: 404,
    when: 'no such path',
    message:
      'no such path; the paths are /api/v1/tokenize, /api/v1/detokenize, /api/v1/lookup, /api/v1/text/tokenize, /api/v1/text/detokenize, /api/v1/policy, /health and /health/live',
  },
  method_not_allowed: {
    status: 405,
    when: 'the path exists, but not with this method',
    message: 'this path does not take this method',
  },
  request_timeout: {
    status: 408,
    when: 'the request did not arrive in time',
    message: 'the request did not arrive in time; send it again',
  },
  precondition_failed: {
    status: 412,
    when: 'the policy in force is not the one of the header If-Match',
    message:
      'the policy in force is not the one of If-Match; GET /api/v1/policy answers with its ETag',
  },
  payload_too_large: {
    status: 413,
    when: 'the body is larger than BODY_LIMIT',
    message: 'the body is too large; send fewer values in a request',
  },
  unsupported_media_type: {
    status: 415,
    when: 'the body is not declared as uncompressed application/json',
    message: 'send one header Content-Type: application/json (UTF-8), and no Content-Encoding',
  },
  expectation_failed: {
    status: 417,
    when: 'the Expect header asks for something other than 100-continue',
    message: 'send Expect: 100-continue, or no Expect header',
  },
  user_limit: {
    status: 429,
    when: 'a limit of the client is exceeded (interface 1.0.5)',
    message: NO_MESSAGE,
  },
  rate_limit: {
    status: 429,
    when: 'a limit of the client is exceeded (interface 1.0.4)',
    message: NO_MESSAGE,
  },
  headers_too_large: {
    status: 431,
    when: 'the request line and headers are too large or too many',
    message: 'send a request line and headers of less than 16 KiB, and fewer than 128 headers',
  },
  overloaded: {
    status: 503,
    when: 'the request would have to wait too long or take too much memory, or the process is draining',
    message: 'the service is busy or stopping; send the request again after retry_after seconds',
  },
} as const;

export type CallerErrorCode = keyof typeof CALLER_ERRORS;

/** Fixed texts of a 500, so that nothing of a request, a row or a library reaches the caller. */
export const INTERNAL_REASONS = {
  database_unavailable: 'database unavailable',
  database_unsafe: 'database unsafe',
  license_expired: 'license expired',
  license_invalid: 'license invalid',
  record_damaged: 'record failed authentication',
  key_missing: 'key version not in the keyring',
  token_space_exhausted: 'token space exhausted',
  policy_unreadable: 'policy cannot be read',
  audit_unavailable: 'audit log unavailable',
  issuer_unavailable: 'keys of JWT_ISSUER unavailable',
  presidio_missing: 'the policy names an entity of Presidio, but PRESIDIO_URL is not set',
  presidio_unavailable: 'Presidio unavailable',
  unexpected: 'unexpected failure',
} as const;

export type InternalReason = keyof typeof INTERNAL_REASONS;

/**
 * An error that the caller can fix. The answer is its row in CALLER_ERRORS, with a more precise
 * message if there is one.
 */
export class CallerError extends Error {
  readonly code: CallerErrorCode;
  readonly retryAfterS: number | undefined;

  constructor(code: CallerErrorCode, message = '', retryAfterS?: number) {
    super(message || CALLER_ERRORS[code].message);
    this.code = code;
    this.retryAfterS = retryAfterS;
  }
}

/** A refusal of what may be sent again in a second. */
export function overloaded(): CallerError {
  return new CallerError('overloaded', '', 1);
}

/**
 * Our own failure: a 500 with the fixed text of its reason. The log shows only the code of the
 * cause.
 */
export class InternalError extends Error {
  readonly reason: InternalReason;

  constructor(reason: InternalReason, options?: { cause?: unknown }) {
    super(INTERNAL_REASONS[reason], options);
    this.reason = reason;
  }
}

/** The database was not reachable, or did not answer in time. The statement may have run. */
export class Unavailable extends InternalError {
  constructor(cause: unknown) {
    super('database_unavailable', { cause });
  }
}

/** Unavailable in the middle of a change, which may have been made. */
export class PerhapsDone extends Unavailable {}

/** The error of a change, as PerhapsDone if the database was unavailable. */
export function errorOfChange(error: unknown): unknown {
  const isOutage = error instanceof InternalError && error.reason === 'database_unavailable';
  return isOutage ? new PerhapsDone(error.cause) : error;
}

/** A problem that the operator can fix. The command line prints it and exits with 1. */
export class OperatorError extends Error {
  readonly problems: readonly string[];

  constructor(...problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

/** What the operator named does not exist. */
export class NotFound extends OperatorError {}

/** What the operator asks for contradicts what exists. */
export class Conflict extends OperatorError {}

/** What exists has changed since the operator saw it. Nothing was done. */
export class StaleVersion extends OperatorError {}

/**
 * The `code` of an error: an SQLSTATE or an errno name. undefined when there is none: pg throws
 * plain Errors for lost connections.
 */
export function errorCode(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : undefined;
}

/** The problem that an operator can fix, also when it is the cause of a 500. */
export function operatorError(error: unknown): OperatorError | undefined {
  if (error instanceof OperatorError) return error;
  return error instanceof Error && error.cause instanceof OperatorError ? error.cause : undefined;
}

/** Why something failed, as the beginning of a sentence: with the remedy, if there is one. */
export function reasonInWords(error: InternalError): string {
  return (operatorError(error) ?? error).message.replace(/\.$/, '');
}
