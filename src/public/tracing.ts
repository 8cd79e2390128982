import { type Correlation, isSampled } from './correlation.ts';
import type { Answer, Exchange } from './exchange.ts';

/** Makes spans of requests; process/tracing.ts is the one that sends them. */
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

/** Requests with values have spans. Probes and unknown paths have none. */
const TRACED = '/api/';

/** The lines of a request with a span have its ids. */
export function beginSpan(tracing: Tracing, exchange: Exchange): void {
  const { id, route, request, startedAtMs, correlation } = exchange;
  if (!route?.startsWith(TRACED)) return;
  const method = request.method!;
  const sampled = isSampled(request.headers);
  const about = { method, route, request_id: id, startedAtMs, correlation, isSampled: sampled };
  exchange.span = tracing.begin(about);
  exchange.correlation = { ...correlation, ...exchange.span.ids };
}

/** The wait for a vault thread, and its work with the database, as a span. */
export function inVault<T>({ span }: Exchange, work: Promise<T>): Promise<T> {
  return span === undefined ? work : span.part('vault', work);
}

export function endSpan({ span, caller }: Exchange, { status, values = 0 }: Answer): void {
  span?.end({ status, values, client_id: caller?.client.client_id });
}
