import { MemoryRateLimiter, type RateLimiter, type RetryAfter } from './rate-limit.ts';

/** Buckets that several processes take from. */
export interface SharedBuckets {
  /** How many of the requests of a client may go on, and when the next one may. */
  take(
    client_id: string,
    rate: number,
    requests: number,
  ): Promise<{ granted: number; retry_after_s: number }>;
}

const PATIENCE_MS = 100;

type Waiting = (retry_after: RetryAfter) => void;

/**
 * One limit a client over several processes. Requests that come while others of their client are
 * being asked for share the next question. Without an answer in time each process counts by itself:
 * a limit protects, and must not become an outage.
 */
export class SharedRateLimiter implements RateLimiter {
  readonly #buckets: SharedBuckets;
  readonly #onShared: (is_shared: boolean) => void;
  readonly #own = new MemoryRateLimiter();
  readonly #waiting = new Map<string, Waiting[]>();
  #is_shared = true;

  /** @param onShared told when limits begin and cease to be shared */
  constructor(buckets: SharedBuckets, onShared: (is_shared: boolean) => void) {
    this.#buckets = buckets;
    this.#onShared = onShared;
  }

  take(client_id: string, rate: number): RetryAfter | Promise<RetryAfter> {
    if (rate === 0) return undefined;
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(client_id);
      if (waiting !== undefined) waiting.push(resolve);
      else void this.#askFor(client_id, rate, [resolve]);
    });
  }

  async #askFor(client_id: string, rate: number, first: Waiting[]): Promise<void> {
    for (let asking = first; asking.length > 0; asking = this.#waiting.get(client_id)!) {
      this.#waiting.set(client_id, []);
      const answer = await inTime(this.#buckets.take(client_id, rate, asking.length));
      this.#tell(answer !== undefined);
      asking.forEach((resolve, i) => {
        if (answer === undefined) resolve(this.#own.take(client_id, rate));
        else resolve(i < answer.granted ? undefined : answer.retry_after_s);
      });
    }
    this.#waiting.delete(client_id);
  }

  #tell(is_shared: boolean): void {
    if (is_shared === this.#is_shared) return;
    this.#is_shared = is_shared;
    this.#onShared(is_shared);
  }
}

async function inTime<T>(answer: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, PATIENCE_MS, undefined);
  });
  try {
    return await Promise.race([answer, late]);
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}
