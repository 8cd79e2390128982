import { MemoryRateLimiter, type RateLimiter } from './rate-limit.ts';
import { SharedRateLimiter } from './shared-rate-limit.ts';

/** The rate limiter of a process, and how it stands. */
export interface Limits {
  readonly rate_limiter: RateLimiter;
  /** undefined: limits are not meant to be shared. */
  readonly isShared: (() => boolean) | undefined;
  close(): void;
}

/**
 * Limits that all nodes share through Redis; without a URL, those of this process alone. A Redis
 * that hangs holds up the start for 3 s at most, nothing else.
 * @param onChange told when sharing ends, with what is wrong, and when it is back
 */
export async function openLimits(
  redis_url: string | undefined,
  onChange: (is_shared: boolean, failure: string | undefined) => void,
): Promise<Limits> {
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
