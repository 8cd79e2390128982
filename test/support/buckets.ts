import type { Bucket } from '../../src/service/limits/rate-limit.ts';

/** One second of requests, as those of tokenize and detokenize are counted. */
export function requestBucket(name: string, rate: number): Bucket {
  return { name, rate, burst_s: 1, may_owe: false };
}

/** A minute's worth of what was used before it could be counted. */
export function budgetBucket(name: string, rate: number): Bucket {
  return { name, rate, burst_s: 60, may_owe: true };
}
