import type { RateLimiter } from './bucket.ts';
import { MemoryRateLimiter } from './rate-limit.ts';
import { SharedRateLimiter } from './shared-rate-limit.ts';

/** The rate limiter of a process, and how it stands. */
export interface Limits {
  readonly rate_limiter: RateLimiter;
  /** undefined: limits are not meant to be shared by nodes. */
  readonly isShared: (() => boolean) | undefined;
  close(): void;
}

export interface LimitsOptions {
  /** Limits that all nodes share. */
  readonly redis_url: string | undefined;
  /** Told when sharing ends, with what is wrong, and when it is back. */
  readonly onChange: (is_shared: boolean, failure: string | undefined) => void;
}

/** A Redis that hangs holds up the start for 3 s at most, nothing else. */
export async function openLimits(options: LimitsOptions): Promise<Limits> {
  const { redis_url, onChange } = options;
  if (redis_url === undefined)
    return { rate_limiter: new MemoryRateLimiter(), isShared: undefined, close() {} };
  // The client library takes 0.1 s to load: only who uses it waits for it.
  const { RedisBuckets } = await import('./redis-buckets.ts');
  const buckets = await RedisBuckets.open(redis_url);
  let is_shared = true;
  let is_closed = false;
  const rate_limiter = new SharedRateLimiter(buckets, (now_shared) => {
    if (is_closed || now_shared === is_shared) return;
    is_shared = now_shared;
    onChange(is_shared, is_shared ? undefined : (buckets.failure ?? 'no answer in time'));
  });
  return {
    rate_limiter,
    isShared: () => is_shared,
    close() {
      is_closed = true;
      rate_limiter.stop();
      buckets.close();
    },
  };
}
