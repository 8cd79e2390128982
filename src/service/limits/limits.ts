import type { RateLimiter } from './bucket.ts';
import { MemoryRateLimiter } from './rate-limit.ts';
import { SharedRateLimiter } from './shared-rate-limit.ts';

/** The rate limiter of a process, and how it stands. */
export interface Limits {
  readonly rateLimiter: RateLimiter;
  /** undefined: limits are not meant to be shared by nodes. */
  readonly isShared: (() => boolean) | undefined;
  close(): void;
}

export interface LimitsOptions {
  /** Limits that all nodes share. */
  readonly redisUrl: string | undefined;
  /** Told when sharing ends, with what is wrong, and when it is back. */
  readonly onChange: (isShared: boolean, failure: string | undefined) => void;
}

/** A Redis that hangs holds up the start for 3 s at most, nothing else. */
export async function openLimits(options: LimitsOptions): Promise<Limits> {
  const { redisUrl, onChange } = options;
  if (redisUrl === undefined)
    return { rateLimiter: new MemoryRateLimiter(), isShared: undefined, close() {} };
  // The client library takes 0.1 s to load: only who uses it waits for it.
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
