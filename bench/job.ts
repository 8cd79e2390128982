import type { PeerName } from './peers.ts';

/** What the benchmark asks of the load generator, and what it hears back. */

export type Operation = 'tokenize' | 'detokenize';

export type Source =
  /** Every request has this many records that were never sent before. */
  | { readonly kind: 'fresh'; readonly records: number }
  /** A file of JSON: a list of [data sent, data expected], both as JSON; taken in a random order. */
  | { readonly kind: 'pairs'; readonly file: string };

export interface Job {
  readonly url: string;
  /** Set: in the interface of this product. */
  readonly peer?: PeerName | undefined;
  readonly api_key: string;
  readonly operation: Operation;
  readonly source: Source;
  /** Number of the first fresh record. */
  readonly from: number;
  /** Ends the job before its time when the number of the next fresh record is this. */
  readonly to?: number;
  readonly connections: number;
  readonly duration_ms: number;
  /**
   * Not set: each connection sends its next request when it has its answer. Set: a request every so often, whatever
   * the answers do, and waiting for a free connection counts as latency.
   */
  readonly intervalMs?: number;
  /** A request that was answered with 500 or 503 is sent again: none of the records is left out. */
  readonly isPatient?: boolean;
  /** One more connection sends fresh bodies of this many records meanwhile, this long after each answer. */
  readonly beside?: { readonly records: number; readonly pauseMs: number };
}

export interface JobResult {
  /** Answered with 200 and, where the answer is known, with the right one. */
  readonly right: number;
  /** Everything else, by reason: a status, `wrong answer`. */
  readonly failures: Record<string, number>;
  /** Requests of a patient job that were sent again. */
  readonly repeated: number;
  /** From the first request to the last answer. */
  readonly durationS: number;
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly maxMs: number;
  /** Median of the large requests beside; 0 without. */
  readonly besideP50Ms: number;
  /** CPU time of the generator. */
  readonly cpuS: number;
  /** A random sample of [data sent, data answered] of a fresh source. */
  readonly samples: readonly (readonly [unknown, unknown])[];
  /** Number of the first record that was not made. */
  readonly next: number;
}

export type Reply = { readonly result: JobResult } | { readonly error: string };
