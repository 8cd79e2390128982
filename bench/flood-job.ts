import type { Operation, Source } from './job.ts';

/** The order for a flood, and its result. */
export interface FloodJob {
  readonly url: string;
  readonly api_key: string;
  readonly operation: Operation;
  readonly source: Source;
  /** Number of the first fresh record. */
  readonly from: number;
  /** Requests a second. */
  readonly rate: number;
  readonly connections: number;
  readonly duration_ms: number;
}

/** Latencies, from the due time of a request to its answer. */
export interface Latencies {
  readonly count: number;
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly maxMs: number;
}

export interface FloodResult {
  readonly offered: number;
  /** Number of correct answers. */
  readonly ok: Latencies;
  /** Number of 503 `overloaded`. */
  readonly shed: Latencies;
  /** Other answers, by reason. */
  readonly failures: Record<string, number>;
  readonly unanswered: number;
  /** Time until the last correct answer. */
  readonly seconds: number;
  /** The greatest delay of the generator itself. */
  readonly lateMs: number;
  readonly samples: readonly (readonly [unknown, unknown])[];
  readonly next: number;
}

export type FloodReply = { readonly result: FloodResult } | { readonly error: string };
