import type { IncomingHttpHeaders } from 'node:http';

/** The ids that the caller's headers give a request, for the log and the audit log. */
export type Correlation = {
  /** 32 hex digits. */
  readonly trace_id?: string;
  /** 16 hex digits: the caller's span. */
  readonly parent_id?: string;
  /** Only characters that JSON does not escape. */
  readonly caller_request_id?: string;
  /** The same for a request to a model and its answer. */
  readonly litellm_call_id?: string;
  /** 16 hex digits: Standin's span, where it makes one. */
  readonly span_id?: string;
};

/** Creates request spans. `process/tracing.ts` exports them. */
export interface Tracing {
  begin(request: TracedRequest): RequestSpan;
  /** Sends what waits, for a few seconds at most. */
  close(): Promise<void>;
}

export interface TracedRequest {
  readonly method: string;
  readonly route: string;
  readonly request_id: string;
  /** A time of performance.now(). */
  readonly startedAtMs: number;
  /** Its ids are the parent of the span. */
  readonly correlation: Correlation;
  /** Whether the caller records the trace; without a parent, it says nothing. */
  readonly isSampled: boolean;
}

export interface RequestSpan {
  readonly ids: { readonly trace_id: string; readonly span_id: string };
  /** A span of a part of the request, until `work` settles. */
  part<T>(name: string, work: Promise<T>): Promise<T>;
  end(answered: { status: number; values: number; client_id: string | undefined }): void;
}

/**
 * https://www.w3.org/TR/trace-context-2/#traceparent-header: version, trace, span and flags in
 * small hex digits. Version 00 ends there; a later one may add fields after another hyphen.
 */
const TRACEPARENT =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/;
const FIRST_VERSION = '00';
const FIRST_VERSION_LENGTH = 55;
const FLAGS = 53;
const SAMPLED = 0x01;
const MAX_TRACEPARENT_LENGTH = 256;
const REQUEST_ID = /^[A-Za-z0-9._:-]{1,128}$/;
/** A caller may have put an API key or a token there by mistake. */
const API_KEY = 'stk_';

const NOTHING: Correlation = {};

/** Headers that do not fit, or were sent twice, are ignored. */
export function correlationOf(
  { traceparent, 'x-request-id': requestId }: IncomingHttpHeaders,
  tokenSuffix: string,
): Correlation {
  // Node joins the values of a header that was sent twice with a comma, which fits neither form.
  const parent = parentOf(traceparent);
  const id = idIn(requestId, tokenSuffix);
  return id === undefined ? parent : { ...parent, caller_request_id: id };
}

/** An id that the log may have; undefined: it does not fit, or could be a secret. */
export function idIn(id: string | string[] | undefined, tokenSuffix: string): string | undefined {
  const isFit = typeof id === 'string' && REQUEST_ID.test(id);
  return !isFit || id.includes(API_KEY) || id.endsWith(`_${tokenSuffix}`) ? undefined : id;
}

/** The flag of a `traceparent` that `correlationOf` has taken. */
export function isSampled({ traceparent }: IncomingHttpHeaders): boolean {
  const flags = Number.parseInt(String(traceparent).slice(FLAGS, FIRST_VERSION_LENGTH), 16);
  return (flags & SAMPLED) === SAMPLED;
}

function parentOf(header: string | string[] | undefined): Correlation {
  if (typeof header !== 'string' || header.length > MAX_TRACEPARENT_LENGTH) return NOTHING;
  const found = TRACEPARENT.exec(header);
  if (found === null) return NOTHING;
  const [, version, traceId, parentId] = found;
  if (version === FIRST_VERSION && header.length !== FIRST_VERSION_LENGTH) return NOTHING;
  return { trace_id: traceId!, parent_id: parentId! };
}
