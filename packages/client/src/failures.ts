import {
  type Facts,
  ForbiddenError,
  InvalidValueError,
  LimitError,
  StandinError,
  UnauthorizedError,
  UnavailableError,
} from './errors.ts';

/** A place that stays as it was sent. */
export interface Unapplied {
  /** In the caller's data: `data.customer.emails[1]`; in a list, `data[17]`. */
  readonly path: string;
  /**
   * `unknown`: no such token; `forbidden`: the client may not see values of its kind; `excluded`:
   * of a text, neither `only` nor `conversation` names it.
   */
  readonly reason: 'unknown' | 'forbidden' | 'excluded';
}

/** The response to an attempt. */
export interface ServiceResponse {
  readonly operation: string;
  readonly status: number;
  /** Empty if it is not a JSON object. */
  readonly body: Readonly<Record<string, unknown>>;
  readonly headers: { get(name: string): string | null };
  /** How often the client sent the request before this answer. */
  readonly attempts: number;
}

export interface Failure {
  readonly error: StandinError;
  /** Whether the same request may succeed later. */
  readonly isPassing: boolean;
  /** The least time before a retry. */
  readonly retryAfterMs: number;
}

/** Such as `data.customer["e mail"][1]`. */
const PATH = String.raw`data(?:\.[A-Za-z_][\w-]*|\[\d+\]|\["(?:[^"\\]|\\.)*"\])*`;
const FIRST_PATH = new RegExp(`^${PATH}`, 's');
const IS_PATH = new RegExp(`^${PATH}$`, 's');
/** A path, and the fault there. */
const MESSAGE = new RegExp(`^(${PATH}): (.{1,1000})$`, 's');
const NO_RIGHT = new RegExp(
  `^(${PATH}): this client may not see values of kind (\\w{1,32}); an operator can allow it in the policy$`,
  's',
);
/** Too narrow for a value, a token or an API key. */
const CODE = /^[a-z_]{1,40}$/;
/**
 * The service's messages by code, word for word: those of another server could quote a value or the
 * API key.
 */
const DETAILS: Readonly<Record<string, RegExp>> = {
  internal_error:
    /^([a-z ]{1,100}|keys of JWT_ISSUER unavailable|Presidio unavailable|the policy names an entity of Presidio, but PRESIDIO_URL is not set)$/,
  forbidden: new RegExp(
    `^this client may not (tokenize|detokenize|lookup); an operator can allow it: standin client update CLIENT --can [a-z,]{1,40}$|${NO_RIGHT.source}`,
    's',
  ),
  not_found:
    /^(no such path; the paths are (\/[a-z0-9/]{1,30}(, | and |$)){1,12}|the vault has no policy; an operator can apply one: standin policy apply FILE)$/,
  precondition_failed:
    /^the policy in force is not the one of If-Match; GET \/api\/v1\/policy answers with its ETag$/,
  method_not_allowed: /^this path takes [A-Z, ]{3,40}$/,
  payload_too_large:
    /^the body has more than \d{1,10} bytes \(BODY_LIMIT\); send fewer values in a request$/,
  unsupported_media_type:
    /^send one header Content-Type: application\/json \(UTF-8\), and no Content-Encoding$/,
};
const NO_DETAIL = /^(?!)/;

/** Statuses of a temporary failure, of the service or of a proxy before it. */
const PASSING = [408, 429, 502, 503, 504];

const REMEDIES: Record<number, string> = {
  401: 'the API key is unknown, expired or revoked; issue another with standin api-key issue --client NAME',
  404: 'is url the address of the service itself?',
  412: 'the vault has no policy; apply one, or leave out policy: true',
  413: 'lower maxBytes, or raise BODY_LIMIT of the service',
  429: 'the client exceeded a limit, and the wait is longer than timeoutMs; send less, or raise timeoutMs',
  503: 'the service is overloaded or draining',
};

const CLASSES: Readonly<Record<number, typeof StandinError>> = {
  401: UnauthorizedError,
  403: ForbiddenError,
  408: UnavailableError,
  429: LimitError,
};

const NOT_STANDIN =
  'this answer comes from a proxy or another server, not from Standin; is url the address of the service itself?';

/** The path in the caller's data of a path in a request; undefined: the same. */
export type PathFor = (path: string) => string | undefined;

/** undefined: the answer is a success. */
export function failureOf(answer: ServiceResponse, pathFor: PathFor): Failure | undefined {
  const { operation, status, headers, body } = answer;
  if (status === 200) return undefined;
  const code = textOf(body.error, CODE) ?? 'bad_answer';
  const words =
    typeof body.message === 'string'
      ? body.message.replace(FIRST_PATH, (path) => pathFor(path) ?? path)
      : '';
  const detail = textOf(words, DETAILS[code] ?? NO_DETAIL);
  const retryAfterMs = secondsOf(body.retry_after ?? headers.get('retry-after')) * 1000;
  const remedy = code === 'bad_answer' ? NOT_STANDIN : REMEDIES[status];
  const said = [`${operation}: ${status} ${code}`, detail, remedy];
  const message = said.filter((part) => part !== undefined).join(': ');
  const facts = { ...factsOf(answer), code, detail, ...(status === 429 && { retryAfterMs }) };
  const error = errorOf(message, words, facts);
  const isPassing =
    PASSING.includes(status) || (status === 500 && detail === 'database unavailable');
  return { error, isPassing, retryAfterMs };
}

function factsOf({ status, headers, attempts }: ServiceResponse) {
  return { status, requestId: headers.get('x-request-id') ?? undefined, attempts };
}

function errorOf(message: string, words: string, facts: Facts & { status: number }): StandinError {
  const { code, status } = facts;
  if (code === 'invalid_type') {
    const [, path = 'data', reason = 'is not acceptable'] = MESSAGE.exec(words) ?? [];
    return new InvalidValueError(path, reason, facts);
  }
  const [, path, kind] = NO_RIGHT.exec(words) ?? [];
  const Class = CLASSES[status] ?? (status >= 500 ? UnavailableError : StandinError);
  return new Class(message, status === 403 ? { ...facts, path, kind } : facts);
}

/** Reasons that no retry cures: untrusted certificates, and ports that `fetch` refuses. */
const LASTING = /CERT|SIGNED|SIGNATURE|ISSUER|^ERR_(TLS|SSL)|^bad port$/;

/** The answer is missing or incomplete. Only the code of the error of `fetch` is kept. */
export function networkFailure(operation: string, error: unknown, attempts: number): Failure {
  const reason = reasonOf(error);
  const message = `${operation}: no answer from the service (${reason}); is url right, and is the service running?`;
  return {
    error: new UnavailableError(message, { code: 'network_error', attempts, detail: reason }),
    isPassing: !LASTING.test(reason),
    retryAfterMs: 0,
  };
}

/** A status 200 without Standin's JSON, or with data of another structure than the request's. */
export function badAnswer(answer: ServiceResponse): StandinError {
  const message = `${answer.operation}: the answer does not match the request: ${NOT_STANDIN}`;
  return new StandinError(message, { ...factsOf(answer), code: 'bad_answer' });
}

/** @throws StandinError when a path of the policy begins with `values`, and strings passed by it */
export function checkPassed(answer: ServiceResponse): void {
  if (!/passed=[1-9]/.test(answer.headers.get('standin-strings') ?? '')) return;
  const message = `${answer.operation}: the policy left strings in clear, because one of its paths begins with values; rename that field in the policy`;
  throw new StandinError(message, { ...factsOf(answer), code: 'passed' });
}

export const REASONS: readonly unknown[] = ['unknown', 'forbidden', 'excluded'];

/** The places that a lenient answer left out. @throws StandinError when it is not Standin's */
export function unappliedIn(answer: ServiceResponse): Unapplied[] {
  const list = answer.body.unapplied ?? [];
  const isRight = (one: Unapplied | null) =>
    typeof one?.path === 'string' && IS_PATH.test(one.path) && REASONS.includes(one.reason);
  if (!Array.isArray(list) || !list.every(isRight)) throw badAnswer(answer);
  return list.map(({ path, reason }) => ({ path, reason }));
}

/** Anything but a JSON object becomes {}: the message of a SyntaxError would quote the text. */
export function parseBody(text: string): Record<string, unknown> {
  try {
    const body = JSON.parse(text);
    return typeof body === 'object' && body !== null ? body : {};
  } catch {
    return {};
  }
}

function textOf(json: unknown, form: RegExp): string | undefined {
  return typeof json === 'string' && form.test(json) ? json : undefined;
}

/** A proxy may send a date instead, which counts as 0. */
function secondsOf(retryAfter: unknown): number {
  const seconds = Number(retryAfter ?? 0);
  return Number.isFinite(seconds) && seconds > 0 ? seconds : 0;
}

function reasonOf(error: unknown): string {
  const { code, cause, name } = (error ?? {}) as {
    code?: unknown;
    cause?: { code?: unknown; message?: unknown };
    name?: unknown;
  };
  // Undici gives this error no code.
  if (cause?.message === 'bad port') return 'bad port';
  const words = [cause?.code, code, name].map((one) => textOf(one, /^\w{1,60}$/));
  return words.find((one) => one !== undefined) ?? 'no reason given';
}
