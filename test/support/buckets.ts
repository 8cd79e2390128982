import { type Bucket, type Grant, NO_OUTCOME, type Outcome } from '../../src/limits/buckets.ts';

/** A bucket with one second of requests, as for tokenize and detokenize. */
export function requestBucket(name: string, rate: number): Bucket {
  return { name, rate, burstS: 1, isBudget: false };
}

/** A bucket with one minute of unknown tokens. */
export function budgetBucket(name: string, rate: number): Bucket {
  return { name, rate, burstS: 60, isBudget: true };
}

/** undefined: the bucket granted the request; otherwise the seconds until a retry. */
export function refusalOf({ granted, retryAfterS }: Grant): number | undefined {
  return granted === 1 ? undefined : retryAfterS;
}

/** The outcome of unknown tokens in requests without a reservation. */
export function unknownTokens(count: number): Outcome {
  return { ...NO_OUTCOME, unknown: count, guessed: count };
}

/** The outcome of a finished request. */
export function request(known: number, unknown: number): Outcome {
  return { ended: 1, known, unknown, guessed: Math.max(unknown, known > 0 ? 1 : 0) };
}
