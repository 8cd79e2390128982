/** Facts about a failed call, besides its message. */
export interface Facts {
  readonly code: string;
  readonly attempts: number;
  readonly [name: string]: unknown;
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
  readonly code!: string;
  /** HTTP status of the answer; undefined without an answer. */
  readonly status: number | undefined;
  /** Identifies the line in the service's log; undefined without an answer. */
  readonly requestId: string | undefined;
  /** How often the client sent the request; 0 if the client refused it. */
  readonly attempts!: number;
  /** Why there is no answer (`ECONNREFUSED`), or the service's message (`license expired`). */
  readonly detail: string | undefined;

  constructor(message: string, facts: Facts) {
    super(message);
    Object.assign(this, facts);
  }
}

/** A value is not acceptable, or a token is not known. */
export class InvalidValueError extends StandinError {
  /** The path in the caller's data: `data.customer.emails[1]`; in a list, `data[17]`. */
  declare readonly path: string;
  /** The fault, without the path. */
  declare readonly reason: string;

  constructor(path: string, reason: string, facts: Facts) {
    super(`${path}: ${reason}`, { ...facts, path, reason });
  }

  /** The index in the caller's list, from 0; undefined if the caller passed an object. */
  get index(): number | undefined {
    const digits = /^data\[(\d+)\]/.exec(this.path)?.[1];
    return digits === undefined ? undefined : Number(digits);
  }
}

/** 401: the API key is unknown, expired or revoked. */
export class UnauthorizedError extends StandinError {}

/** 403: the client may not do this, or not see values of a kind. */
export class ForbiddenError extends StandinError {
  /** The path of a value that the client may not see: `data.card`; undefined: all are refused. */
  declare readonly path: string | undefined;
  /** The kind of that value. */
  declare readonly kind: string | undefined;
}

/** 429: the client exceeded a limit, and the wait is longer than the call may take. */
export class LimitError extends StandinError {
  /** When the service would accept the request, in milliseconds from now. */
  declare readonly retryAfterMs: number;
}

/**
 * The service does not answer, or answers 408, 500, 502, 503 or 504. The outcome of a tokenize call
 * is unknown. Repeating the call does no harm.
 */
export class UnavailableError extends StandinError {}

/** The call did not end within `timeoutMs`. The outcome of a tokenize call is unknown. */
export class TimeoutError extends StandinError {}

const CLASSES = {
  ...{ StandinError, InvalidValueError, UnauthorizedError, ForbiddenError },
  ...{ LimitError, UnavailableError, TimeoutError },
};
// Bundlers rename classes.
for (const [name, { prototype }] of Object.entries(CLASSES)) prototype.name = name;
