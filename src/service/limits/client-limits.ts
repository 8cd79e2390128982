import type { Client } from '../../types.ts';
import type { Bucket, RateLimiter, RetryAfter } from './rate-limit.ts';

export type ClientOperation = 'tokenize' | 'detokenize';

/** Which limit refuses a request. */
export type LimitName = 'requests' | 'detokenize' | 'unknown_tokens';

/** Those of the deployment, for clients without their own; a second, 0: none. */
export interface DefaultLimits {
  readonly requests: number;
  readonly detokenize: number;
  readonly unknown_tokens: number;
}

export interface Refusal {
  readonly limit: LimitName;
  readonly retry_after_s: number;
}

/** A client with stale tokens has a minute's worth of them before it is turned away. */
const UNKNOWN_TOKENS_BURST_S = 60;

/** What a client may do, and how much of it. */
export class ClientLimits {
  readonly #rate_limiter: RateLimiter;
  readonly #defaults: DefaultLimits;

  constructor(rate_limiter: RateLimiter, defaults: DefaultLimits) {
    this.#rate_limiter = rate_limiter;
    this.#defaults = defaults;
  }

  /** Counts a request. undefined: it goes on. */
  admit(
    client: Client,
    operation: ClientOperation,
  ): Refusal | undefined | Promise<Refusal | undefined> {
    if (operation === 'tokenize') {
      const taken = this.#rate_limiter.take(this.#requests(client));
      if (taken instanceof Promise) return taken.then((late) => refusal('requests', late));
      return refusal('requests', taken);
    }
    const taken = this.#rate_limiter.take(this.#detokenize(client));
    const left = this.#rate_limiter.spend(this.#unknownTokens(client), 0);
    if (taken instanceof Promise || left instanceof Promise)
      return Promise.all([taken, left]).then(([taken, left]) => ofDetokenize(taken, left));
    return ofDetokenize(taken, left);
  }

  /** Counts tokens that were asked for and are not known. Resolves when later requests see it. */
  async spendUnknown(client: Client, tokens: number): Promise<void> {
    await this.#rate_limiter.spend(this.#unknownTokens(client), tokens);
  }

  #requests({ client_id, rate_limit }: Client): Bucket {
    const rate = rate_limit ?? this.#defaults.requests;
    // The id alone: nodes of before there were other buckets call it so.
    return { name: client_id, rate, burst_s: 1, may_owe: false };
  }

  #detokenize({ client_id, detokenize_limit }: Client): Bucket {
    const rate = detokenize_limit ?? this.#defaults.detokenize;
    return { name: `${client_id}:detokenize`, rate, burst_s: 1, may_owe: false };
  }

  #unknownTokens({ client_id, unknown_token_limit }: Client): Bucket {
    return {
      name: `${client_id}:unknown`,
      rate: unknown_token_limit ?? this.#defaults.unknown_tokens,
      burst_s: UNKNOWN_TOKENS_BURST_S,
      may_owe: true,
    };
  }
}

export function isAllowed(client: Client, operation: ClientOperation): boolean {
  return operation === 'tokenize' ? client.can_tokenize : client.can_detokenize;
}

function ofDetokenize(taken: RetryAfter, left: RetryAfter): Refusal | undefined {
  return refusal('detokenize', taken) ?? refusal('unknown_tokens', left);
}

function refusal(limit: LimitName, retry_after_s: RetryAfter): Refusal | undefined {
  return retry_after_s === undefined ? undefined : { limit, retry_after_s };
}
