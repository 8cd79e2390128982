import {
  type Bucket,
  type Grant,
  NO_OUTCOME,
  type Outcome,
} from '../../src/service/limits/bucket.ts';

/** One second of requests, as those of tokenize and detokenize are counted. */
export function requestBucket(name: string, rate: number): Bucket {
  return { name, rate, burstS: 1 };
}

/** A minute's worth of unknown tokens. */
export function budgetBucket(name: string, rate: number): Bucket {
  return { name, rate, burstS: 60 };
}

/** What a request for one is told: undefined: go on; otherwise when there is one again. */
export function refusalOf({ granted, retryAfterS }: Grant): number | undefined {
  return granted === 1 ? undefined : retryAfterS;
}

/** Unknown tokens alone, of requests that had reserved nothing. */
export function unknownTokens(count: number): Outcome {
  return { ...NO_OUTCOME, unknown: count, guessed: count };
}

/** A request that is over. */
export function request(known: number, unknown: number): Outcome {
  return { ended: 1, known, unknown, guessed: Math.max(unknown, known > 0 ? 1 : 0) };
}
