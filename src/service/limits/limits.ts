import type { RateLimiter } from './bucket.ts';
import { MemoryRateLimiter } from './rate-limit.ts';
import { SharedRateLimiter } from './shared-rate-limit.ts';

/** The rate limiter of a process, and whether other nodes share its limits. */
export interface Limits {
  readonly rateLimiter: RateLimiter;
  /** undefined: nodes do not share limits. */
  readonly isShared: (() => boolean) | undefined;
  close(): void;
}

export interface LimitsOptions {
  /** The Redis that nodes share limits in; undefined: each node limits alone. */
  readonly redisUrl: string | undefined;
  /** Called when sharing ends, with the failure, and when it resumes. */
  readonly onChange: (isShared: boolean, failure: string | undefined) => void;
}

/** A Redis that hangs delays the start by at most 3 s, and nothing else. */
export async function openLimits(options: LimitsOptions): Promise<Limits> {
  const { redisUrl, onChange } = options;
  if (redisUrl === undefined)
    return { rateLimiter: new MemoryRateLimiter(), isShared: undefined, close() {} };
  // Loading the client library takes 0.1 s, so only nodes that use Redis load it.
  const { RedisBuckets } = await import('./redis-buckets.ts');
  const buckets = await RedisBuckets.open(redisUrl);
  let isShared = true;
  let isClosed = false;
  const rateLimiter = new SharedRateLimiter(buckets, (nowShared) => {
    if (isClosed || nowShared === isShared) return;
    isShared = nowShared;
    onChange(isShared, isShared ? undefined : (buckets.failure ?? 'no answer in time'));
  });
  return {
    rateLimiter,
    isShared: () => isShared,
    close() {
      isClosed = true;
      rateLimiter.stop();
      buckets.close();
    },
  };
}
