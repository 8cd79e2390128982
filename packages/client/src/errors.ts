/** Facts about a failed call, besides its message. */
interface Circumstances {
  readonly code: string;
  readonly status?: number | undefined;
  readonly requestId?: string | undefined;
  readonly attempts: number;
  readonly detail?: string | undefined;
}

/**
 * A failed call. No error contains a value, a token or the API key. No error contains the error of
 * `fetch` either, because its fields may hold bytes of an answer.
 */
export class StandinError extends Error {
  /**
   * The code of the answer (docs/errors.md), or `network_error` (no answer), `timeout` (no
   * answer in time), `bad_answer` (an answer that is not Standin's).
   */
  readonly code: string;
  /** HTTP status of the answer; undefined without an answer. */
  readonly status: number | undefined;
  /** Identifies the line in the service's log; undefined without an answer. */
  readonly requestId: string | undefined;
  /** How often the client sent the request; 0 if the client refused it. */
  readonly attempts: number;
  /** Why there is no answer (`ECONNREFUSED`), or the service's message (`license expired`). */
  readonly detail: string | undefined;

  static {
    StandinError.prototype.name = 'StandinError';
  }

  constructor(message: string, { code, status, requestId, attempts, detail }: Circumstances) {
    super(message);
    this.code = code;
    this.status = status;
    this.requestId = requestId;
    this.attempts = attempts;
    this.detail = detail;
  }
}

/** A value is not acceptable, or a token is not known. */
export class InvalidValueError extends StandinError {
  /** The path in the caller's data: `data.customer.emails[1]`; in a list, `data[17]`. */
  readonly path: string;
  /** The fault, without the path. */
  readonly reason: string;

  static {
    InvalidValueError.prototype.name = 'InvalidValueError';
  }

  constructor(path: string, reason: string, circumstances: Circumstances) {
    super(`${path}: ${reason}`, circumstances);
    this.path = path;
    this.reason = reason;
  }

  /** The index in the caller's list, from 0; undefined if the caller passed an object. */
  get index(): number | undefined {
    const digits = /^data\[(\d+)\]/.exec(this.path)?.[1];
    return digits === undefined ? undefined : Number(digits);
  }
}

/** 401: the API key is unknown, expired or revoked. */
export class UnauthorizedError extends StandinError {
  static {
    UnauthorizedError.prototype.name = 'UnauthorizedError';
  }
}

/** 403: the client may not do this, or not see values of a kind. */
export class ForbiddenError extends StandinError {
  /** The path of a value that the client may not see: `data.card`; undefined: all are refused. */
  readonly path: string | undefined;
  /** The kind of that value. */
  readonly kind: string | undefined;

  static {
    ForbiddenError.prototype.name = 'ForbiddenError';
  }

  constructor(message: string, circumstances: Circumstances, path?: string, kind?: string) {
    super(message, circumstances);
    this.path = path;
    this.kind = kind;
  }
}

/**
 * The error in terms of the caller's data.
 * @param pathFor the path there of a path in the request; undefined: the same
 */
export function inTermsOf(error: unknown, pathFor: (path: string) => string | undefined): unknown {
  if (error instanceof InvalidValueError)
    return new InvalidValueError(pathFor(error.path) ?? error.path, error.reason, error);
  if (!(error instanceof ForbiddenError) || error.path === undefined) return error;
  const path = pathFor(error.path) ?? error.path;
  const moved = (text: string) => text.replace(error.path!, () => path);
  const { code, status, requestId, attempts, detail = '' } = error;
  const circumstances = { code, status, requestId, attempts, detail: moved(detail) };
  return new ForbiddenError(moved(error.message), circumstances, path, error.kind);
}

/** 429: the client exceeded a limit, and the wait is longer than the call may take. */
export class LimitError extends StandinError {
  /** When the service would accept the request, in milliseconds from now. */
  readonly retryAfterMs: number;

  static {
    LimitError.prototype.name = 'LimitError';
  }

  constructor(message: string, retryAfterMs: number, circumstances: Circumstances) {
    super(message, circumstances);
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * The service does not answer, or answers 408, 500, 502, 503 or 504. The outcome of a tokenize call
 * is unknown. Repeating the call does no harm.
 */
export class UnavailableError extends StandinError {
  static {
    UnavailableError.prototype.name = 'UnavailableError';
  }
}

/** The call did not end within `timeoutMs`. The outcome of a tokenize call is unknown. */
export class TimeoutError extends StandinError {
  static {
    TimeoutError.prototype.name = 'TimeoutError';
  }
}
