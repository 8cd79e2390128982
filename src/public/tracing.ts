import type { Correlation } from './correlation.ts';

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
