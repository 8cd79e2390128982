import type { Client, LimitName } from '../../types.ts';
import type { Bucket, Grant, RateLimiter } from './bucket.ts';
import { atMostWhole } from './guess-budget.ts';
import { LookUps } from './look-ups.ts';

export type ClientOperation = 'tokenize' | 'detokenize';

/** Those of the deployment, for clients without their own; a second, 0: none. */
export interface DefaultLimits {
  readonly requests: number;
  readonly detokenize: number;
  readonly unknown_tokens: number;
}

/** A limit of a client, as callers are told of it. */
export interface Quota {
  readonly limit: LimitName;
  readonly size: number;
  readonly window_s: number;
}

/** How a limit stands; of a limit that refuses: nothing is left for so long. */
export interface LimitState {
  readonly limit: LimitName;
  readonly left: number;
  readonly window_s: number;
}

/** What the limits say of a request. */
export interface Admission {
  /** Those that the operation has; the same array for each request of a client. */
  readonly quotas: readonly Quota[];
  /** Of the limit that refuses, or of the limit of requests; undefined: there is none. */
  readonly state: LimitState | undefined;
  readonly is_refused: boolean;
}

/** What became of the distinct tokens of a request. */
export interface TokenCounts {
  readonly known: number;
  /** Tokens that the vault has never given out. */
  readonly unknown: number;
}

/** A budget of unknown tokens holds a minute of them. */
const UNKNOWN_TOKENS_BURST_S = 60;
const TELL_INTERVAL_MS = 60_000;

/** A bucket and what callers are told of it. */
interface Limit {
  readonly bucket: Bucket;
  readonly quota: Quota;
}

/** The limits of a client; undefined: none. */
interface Limits {
  readonly requests: Limit | undefined;
  readonly detokenize: Limit | undefined;
  readonly unknown_tokens: Limit | undefined;
  readonly quotas: Readonly<Record<ClientOperation, readonly Quota[]>>;
}

/** What a client may do, and how much of it. */
export class ClientLimits {
  readonly #rate_limiter: RateLimiter;
  readonly #look_ups: LookUps;
  readonly #defaults: DefaultLimits;
  readonly #refusals: Refusals;
  /** By what is known of a client, so that a change is in force with it. */
  readonly #limits = new WeakMap<Client, Limits>();

  /** @param tell told of the refusals of a client by one limit, at most once a minute */
  constructor(rate_limiter: RateLimiter, defaults: DefaultLimits, tell: Refusals['tell']) {
    this.#rate_limiter = rate_limiter;
    this.#look_ups = new LookUps(rate_limiter);
    this.#defaults = defaults;
    this.#refusals = new Refusals(tell);
  }

  /** Counts a request. */
  admit(client: Client, operation: ClientOperation): Admission | Promise<Admission> {
    const limits = this.#of(client);
    const quotas = limits.quotas[operation];
    const of_requests = operation === 'tokenize' ? limits.requests : limits.detokenize;
    const taken = of_requests && this.#rate_limiter.take(of_requests.bucket);
    const of_tokens = operation === 'detokenize' ? limits.unknown_tokens : undefined;
    const spent = of_tokens && this.#look_ups.isSpent(of_tokens.bucket);
    const judge = (taken: Grant | undefined, retry_after_s: number | undefined): Admission => {
      if (of_requests !== undefined && taken!.granted === 0)
        return this.#refuse(client, quotas, of_requests, taken!.retry_after_s);
      if (retry_after_s !== undefined)
        return this.#refuse(client, quotas, of_tokens!, retry_after_s);
      return {
        quotas,
        state: of_requests && stateOf(of_requests.quota, taken!),
        is_refused: false,
      };
    };
    if (taken instanceof Promise || spent instanceof Promise)
      return Promise.all([taken, spent]).then(([taken, late]) => judge(taken, late));
    return judge(taken, spent);
  }

  /**
   * Reserves for a request whose tokens are about to be looked up; `settle` has to follow.
   * undefined: it goes on.
   * @throws CallerError overloaded
   */
  reserve(client: Client): Admission | undefined | Promise<Admission | undefined> {
    const limits = this.#of(client);
    const { unknown_tokens: limit, quotas } = limits;
    if (limit === undefined) return undefined;
    const judge = (retry_after_s: number | undefined): Admission | undefined =>
      retry_after_s === undefined
        ? undefined
        : this.#refuse(client, quotas.detokenize, limit, retry_after_s);
    const reserved = this.#look_ups.reserve(limit.bucket);
    return reserved instanceof Promise ? reserved.then(judge) : judge(reserved);
  }

  /** Counts the tokens of a request that had reserved. Resolves when later requests see it. */
  settle(client: Client, { known, unknown }: TokenCounts): void | Promise<void> {
    const limit = this.#of(client).unknown_tokens;
    if (limit === undefined) return;
    const spent = atMostWhole(limit.bucket, unknown);
    const guessed = known > 0 ? Math.max(1, spent) : spent;
    return this.#look_ups.settle(limit.bucket, { ended: 1, known, unknown: spent, guessed });
  }

  #refuse(
    { client_id }: Client,
    quotas: readonly Quota[],
    { quota: { limit } }: Limit,
    retry_after_s: number,
  ): Admission {
    this.#refusals.count(client_id, limit);
    return { quotas, state: { limit, left: 0, window_s: retry_after_s }, is_refused: true };
  }

  #of(client: Client): Limits {
    let limits = this.#limits.get(client);
    if (limits === undefined) {
      limits = limitsOf(client, this.#defaults);
      this.#limits.set(client, limits);
    }
    return limits;
  }
}

export function isAllowed(client: Client, operation: ClientOperation): boolean {
  return operation === 'tokenize' ? client.can_tokenize : client.can_detokenize;
}

function limitsOf(client: Client, defaults: DefaultLimits): Limits {
  const { client_id } = client;
  // The id alone: nodes of before there were other buckets call it so.
  const requests = limitOf('requests', client_id, client.rate_limit ?? defaults.requests, 1);
  const detokenize = limitOf(
    'detokenize',
    `${client_id}:detokenize`,
    client.detokenize_limit ?? defaults.detokenize,
    1,
  );
  const unknown_tokens = limitOf(
    'unknown_tokens',
    `${client_id}:unknown`,
    client.unknown_token_limit ?? defaults.unknown_tokens,
    UNKNOWN_TOKENS_BURST_S,
  );
  const quotas = {
    tokenize: quotasOf(requests),
    detokenize: quotasOf(detokenize, unknown_tokens),
  };
  return { requests, detokenize, unknown_tokens, quotas };
}

/** undefined: the rate is 0, no limit. */
function limitOf(limit: LimitName, name: string, rate: number, burst_s: number): Limit | undefined {
  if (rate === 0) return undefined;
  const size = Math.max(1, Math.floor(rate * burst_s));
  const window_s = Math.max(burst_s, Math.ceil(1 / rate));
  return { bucket: { name, rate, burst_s }, quota: { limit, size, window_s } };
}

function quotasOf(...limits: readonly (Limit | undefined)[]): readonly Quota[] {
  return limits.flatMap((limit) => (limit === undefined ? [] : [limit.quota]));
}

function stateOf({ limit, window_s }: Quota, { left, retry_after_s }: Grant): LimitState {
  return { limit, left, window_s: left > 0 ? window_s : retry_after_s };
}

/** Tells of refusals: of the first, and then once a minute how many there were since. */
class Refusals {
  readonly tell: (client_id: string, limit: LimitName, refused: number) => void;
  /** At most one for each limit of each client. */
  readonly #by_limit = new Map<string, { told_at_ms: number; refused: number }>();

  constructor(tell: Refusals['tell']) {
    this.tell = tell;
  }

  count(client_id: string, limit: LimitName): void {
    const name = `${client_id} ${limit}`;
    const since = this.#by_limit.get(name) ?? { told_at_ms: -Infinity, refused: 0 };
    this.#by_limit.set(name, since);
    since.refused++;
    const now_ms = performance.now();
    if (now_ms - since.told_at_ms < TELL_INTERVAL_MS) return;
    this.tell(client_id, limit, since.refused);
    since.told_at_ms = now_ms;
    since.refused = 0;
  }
}
