import { createClient } from '@redis/client';
import { CallerError } from '../errors.ts';
import { redisOptions } from './redis-buckets.ts';
import { inTime } from './shared-buckets.ts';

const KEY_PREFIX = 'standin:call:';

/** Calls of models that nodes share in Redis or Valkey for a time. */
export class RedisCalls {
  readonly #client;
  readonly #lifetimeS: number;

  constructor(url: string, lifetimeS: number) {
    this.#lifetimeS = lifetimeS;
    this.#client = createClient(redisOptions(url));
    // The buckets report the same failures.
    this.#client.on('error', () => {});
    void this.#client.connect().catch(() => {});
  }

  async put(key: string, conversation: string): Promise<void> {
    const expiration = { type: 'EX', value: this.#lifetimeS } as const;
    await answered(this.#client.set(KEY_PREFIX + key, conversation, { expiration }));
  }

  async get(key: string): Promise<string | undefined> {
    return (await answered(this.#client.get(KEY_PREFIX + key))) ?? undefined;
  }

  close(): void {
    if (this.#client.isOpen) this.#client.destroy();
  }
}

async function answered<T>(asked: Promise<T>): Promise<T> {
  return inTime(asked).catch(() => {
    throw new CallerError(
      'overloaded',
      'Redis does not answer, and it has the conversations of LiteLLM; send the request again',
      1,
    );
  });
}
