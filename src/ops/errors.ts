import {
  CALLER_ERRORS,
  CallerError,
  Conflict,
  errorCode,
  INTERNAL_REASONS,
  InternalError,
  NotFound,
  OperatorError,
  operatorError,
  PerhapsDone,
  StaleVersion,
} from '../errors.ts';

/** Every error of the admin API. A test compares docs/operating/admin-api.md with it. */
export const ADMIN_ERRORS = {
  bad_request: { status: 400, when: 'the request is not valid HTTP' },
  invalid_type: { status: 400, when: 'the body or a field is not acceptable' },
  unauthorized: { status: 401, when: 'the token is missing or wrong' },
  not_allowed: { status: 403, when: 'the role of the database may not do this' },
  cross_origin: { status: 403, when: 'a page that is not of the console sent the request' },
  not_found: { status: 404, when: 'no such path, client, API key or version' },
  method_not_allowed: { status: 405, when: 'the path exists, but not with this method' },
  conflict: { status: 409, when: 'the request contradicts what exists' },
  unconfirmed: {
    status: 409,
    when: 'the policy has consequences that `confirmed` does not name',
  },
  precondition_failed: {
    status: 412,
    when: 'what exists is not what `If-Match` or `If-None-Match` expects',
  },
  payload_too_large: { status: 413, when: 'the body is larger than 1 MiB' },
  unsupported_media_type: { status: 415, when: 'the body is not declared as application/json' },
  misdirected: { status: 421, when: 'without OPS_TOKEN, `Host` is not this machine' },
  too_many: { status: 429, when: 'the address has sent too many wrong tokens' },
  internal_error: { status: 500, when: 'the request is not at fault; `message` gives the reason' },
  overloaded: { status: 503, when: 'too many requests are under way, or the process is draining' },
} as const;

export type AdminErrorCode = keyof typeof ADMIN_ERRORS;

/** A refused request. The message tells the caller what to do. */
export class OpsError extends Error {
  readonly status: number;
  /** The reason, for programs. */
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export function refusal(code: AdminErrorCode, message: string): OpsError {
  return new OpsError(ADMIN_ERRORS[code].status, code, message);
}

/** PostgreSQL: the role lacks a right. */
const NOT_ALLOWED = '42501';

/** The response to any error of a request. */
export function refusalOf(error: unknown): OpsError {
  if (error instanceof OpsError) return error;
  if (error instanceof CallerError) {
    return new OpsError(CALLER_ERRORS[error.code].status, error.code, error.message);
  }
  if (error instanceof NotFound) return refusal('not_found', error.message);
  if (error instanceof Conflict) return refusal('conflict', error.message);
  if (error instanceof StaleVersion) return refusal('precondition_failed', error.message);
  if (errorCode(error) === NOT_ALLOWED) {
    return refusal(
      'not_allowed',
      'The role that the service has in the database may not do this. Give the admin API a role of its own: set ADMIN_DATABASE_URL (standin migrate --grant-admin-to ROLE).',
    );
  }
  return refusal('internal_error', reasonOf(error));
}

const PERHAPS_DONE = 'the change may have been made. Send the request again.';

/** Words for operators, who can read the log, too. */
function reasonOf(error: unknown): string {
  const problem = error instanceof OperatorError ? error : operatorError(error);
  if (problem !== undefined) return problem.message;
  if (error instanceof PerhapsDone) return `${error.message}: ${PERHAPS_DONE}`;
  return error instanceof InternalError ? error.message : INTERNAL_REASONS.unexpected;
}
