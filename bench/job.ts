import type { PeerName } from './interfaces.ts';

/** The order for the load generator, and its result. */

export type Operation = 'tokenize' | 'detokenize';

export type Source =
  /** Every request has this many new records. */
  | { readonly kind: 'fresh'; readonly records: number; readonly isWide?: boolean }
  /** A JSON file with a list of [data to send, data expected], both as JSON, for a random order. */
  | { readonly kind: 'pairs'; readonly file: string };

export interface Job {
  readonly url: string;
  /** The product whose interface to use; undefined: Standin's. */
  readonly peer: PeerName | undefined;
  readonly apiKey: string;
  readonly operation: Operation;
  readonly source: Source;
  /** Number of the first fresh record. */
  readonly from: number;
  /** The job ends early at this number of the next fresh record. */
  readonly to?: number;
  readonly connections: number;
  readonly durationMs: number;
  /**
   * undefined: each connection sends its next request after its answer. Otherwise the job sends at
   * this interval, regardless of the answers, and latency includes the wait for a free connection.
   */
  readonly intervalMs?: number;
}

export interface Latencies {
  readonly count: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

export interface JobResult {
  /** Requests with a 200 and, if the answer is known, the correct answer. */
  readonly right: Latencies;
  /** Requests that were refused with a 503 `overloaded`. */
  readonly shed: Latencies;
  /** Other requests, by reason: a status, or `wrong answer`. */
  readonly failures: Record<string, number>;
  /** Time from the first request to the last correct answer. */
  readonly durationS: number;
  /** A random sample of [data sent, data answered] for fresh records. */
  readonly samples: readonly (readonly [unknown, unknown])[];
  /** Number of the first unused record. */
  readonly next: number;
}

export type Reply = { readonly result: JobResult } | { readonly error: string };
