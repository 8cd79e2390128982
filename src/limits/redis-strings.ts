import { createClient } from '@redis/client';
import { redisOptions } from './redis-buckets.ts';
import { inTime } from './shared-buckets.ts';

interface StringsOptions {
  readonly prefix: string;
  readonly lifetimeS: number;
  /** The error of a call that Redis does not answer. */
  readonly away: () => Error;
}

/** Strings that nodes share in Redis or Valkey for a time. */
export class RedisStrings {
  readonly #client;
  readonly #options: StringsOptions;

  constructor(url: string, options: StringsOptions) {
    this.#options = options;
    this.#client = createClient(redisOptions(url));
    // The buckets report the same failures.
    this.#client.on('error', () => {});
    void this.#client.connect().catch(() => {});
  }

  async put(key: string, value: string): Promise<void> {
    const { prefix, lifetimeS } = this.#options;
    const expiration = { type: 'EX', value: lifetimeS } as const;
    await this.#answered(() => this.#client.set(prefix + key, value, { expiration }));
  }

  async get(key: string): Promise<string | undefined> {
    const found = await this.#answered(() => this.#client.get(this.#options.prefix + key));
    return found ?? undefined;
  }

  close(): void {
    if (this.#client.isOpen) this.#client.destroy();
  }

  async #answered<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await inTime(ask());
    } catch {
      throw this.#options.away();
    }
  }
}
