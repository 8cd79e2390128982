/** What is known of a failed call besides its message. */
export interface Circumstances {
  readonly code: string;
  readonly status?: number | undefined;
  readonly requestId?: string | undefined;
  readonly attempts: number;
}

/**
 * A call that failed. None of these errors holds a value, a token or the API key, nor an error of
 * `fetch`, whose fields may have bytes of an answer.
 */
export class StandinError extends Error {
  /**
   * The code of the answer (docs/errors.md), or `network_error` (no answer), `timeout` (no
   * answer in time), `bad_answer` (an answer that is not Standin's).
   */
  readonly code: string;
  /** HTTP status of the answer; undefined where there was none. */
  readonly status: number | undefined;
  /** Finds the line of the service's log; undefined where there was no answer. */
  readonly requestId: string | undefined;
  /** Times that the request was sent; 0 when it was refused before. */
  readonly attempts: number;

  static {
    StandinError.prototype.name = 'StandinError';
  }

  constructor(message: string, { code, status, requestId, attempts }: Circumstances) {
    super(message);
    this.code = code;
    this.status = status;
    this.requestId = requestId;
    this.attempts = attempts;
  }
}

/** A value is not acceptable, or a token is not known. */
export class InvalidValueError extends StandinError {
  /** Where, in what the caller gave: `data.customer.emails[1]`; in a list, `data[17]`. */
  readonly path: string;
  /** What is wrong there, without the path. */
  readonly reason: string;

  static {
    InvalidValueError.prototype.name = 'InvalidValueError';
  }

  constructor(path: string, reason: string, circumstances: Circumstances) {
    super(`${path}: ${reason}`, circumstances);
    this.path = path;
    this.reason = reason;
  }

  /** The place in a list that the caller gave, from 0; undefined when it gave an object. */
  get index(): number | undefined {
    const digits = /^data\[(\d+)\]/.exec(this.path)?.[1];
    return digits === undefined ? undefined : Number(digits);
  }
}

/** 401: the API key is not known, has expired or was revoked. */
export class UnauthorizedError extends StandinError {
  static {
    UnauthorizedError.prototype.name = 'UnauthorizedError';
  }
}

/** 403: the client may not do this. */
export class ForbiddenError extends StandinError {
  static {
    ForbiddenError.prototype.name = 'ForbiddenError';
  }
}

/** 429: a limit of the client is exceeded, for longer than the call may take. */
export class LimitError extends StandinError {
  /** When the service would take it again, in milliseconds from now. */
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
 * No answer, or one that says that the service cannot do its work: 408, 500, 502, 503, 504. Of a
 * tokenize, the outcome is unknown; sent again, it does no harm.
 */
export class UnavailableError extends StandinError {
  static {
    UnavailableError.prototype.name = 'UnavailableError';
  }
}

/** The call was not done within `timeoutMs`. Of a tokenize, the outcome is unknown. */
export class TimeoutError extends StandinError {
  static {
    TimeoutError.prototype.name = 'TimeoutError';
  }
}
