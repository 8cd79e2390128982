import type { Operation, Source } from './job.ts';

/** A flood, as the benchmark asks for it, and what it hears back. */
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

/** From when a request was due to its answer. */
export interface Latencies {
  readonly count: number;
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly maxMs: number;
}

export interface FloodResult {
  readonly offered: number;
  /** Right answers. */
  readonly ok: Latencies;
  /** 503 `overloaded`. */
  readonly shed: Latencies;
  /** Anything else, by reason. */
  readonly failures: Record<string, number>;
  readonly unanswered: number;
  /** To the last right answer. */
  readonly seconds: number;
  /** By which the generator itself was late at most. */
  readonly lateMs: number;
  readonly samples: readonly (readonly [unknown, unknown])[];
  readonly next: number;
}

export type FloodReply = { readonly result: FloodResult } | { readonly error: string };
