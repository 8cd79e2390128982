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
  readonly windowS: number;
}

/** How a limit stands; of a limit that refuses: nothing is left for so long. */
export interface LimitState {
  readonly limit: LimitName;
  readonly left: number;
  readonly windowS: number;
}

/** What the limits say of a request. */
export interface Admission {
  /** Those that the operation has; the same array for each request of a client. */
  readonly quotas: readonly Quota[];
  /** Of the limit that refuses, or of the limit of requests; undefined: there is none. */
  readonly state: LimitState | undefined;
  readonly isRefused: boolean;
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
  readonly #rateLimiter: RateLimiter;
  readonly #lookUps: LookUps;
  readonly #defaults: DefaultLimits;
  readonly #refusals: Refusals;
  /** By what is known of a client, so that a change is in force with it. */
  readonly #limits = new WeakMap<Client, Limits>();

  /** @param tell told of the refusals of a client by one limit, at most once a minute */
  constructor(rateLimiter: RateLimiter, defaults: DefaultLimits, tell: Refusals['tell']) {
    this.#rateLimiter = rateLimiter;
    this.#lookUps = new LookUps(rateLimiter);
    this.#defaults = defaults;
    this.#refusals = new Refusals(tell);
  }

  /** Counts a request. */
  admit(client: Client, operation: ClientOperation): Admission | Promise<Admission> {
    const limits = this.#of(client);
    const quotas = limits.quotas[operation];
    const ofRequests = operation === 'tokenize' ? limits.requests : limits.detokenize;
    const taken = ofRequests && this.#rateLimiter.take(ofRequests.bucket);
    const ofTokens = operation === 'detokenize' ? limits.unknown_tokens : undefined;
    const spent = ofTokens && this.#lookUps.isSpent(ofTokens.bucket);
    const judge = (taken: Grant | undefined, retryAfterS: number | undefined): Admission => {
      if (ofRequests !== undefined && taken!.granted === 0)
        return this.#refuse(client, quotas, ofRequests, taken!.retryAfterS);
      if (retryAfterS !== undefined) return this.#refuse(client, quotas, ofTokens!, retryAfterS);
      return {
        quotas,
        state: ofRequests && stateOf(ofRequests.quota, taken!),
        isRefused: false,
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
    const judge = (retryAfterS: number | undefined): Admission | undefined =>
      retryAfterS === undefined
        ? undefined
        : this.#refuse(client, quotas.detokenize, limit, retryAfterS);
    const reserved = this.#lookUps.reserve(limit.bucket);
    return reserved instanceof Promise ? reserved.then(judge) : judge(reserved);
  }

  /** Counts the tokens of a request that had reserved. Resolves when later requests see it. */
  settle(client: Client, { known, unknown }: TokenCounts): void | Promise<void> {
    const limit = this.#of(client).unknown_tokens;
    if (limit === undefined) return;
    const spent = atMostWhole(limit.bucket, unknown);
    const guessed = known > 0 ? Math.max(1, spent) : spent;
    return this.#lookUps.settle(limit.bucket, { ended: 1, known, unknown: spent, guessed });
  }

  #refuse(
    { client_id: clientId }: Client,
    quotas: readonly Quota[],
    { quota: { limit } }: Limit,
    retryAfterS: number,
  ): Admission {
    this.#refusals.count(clientId, limit);
    return { quotas, state: { limit, left: 0, windowS: retryAfterS }, isRefused: true };
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
  const { client_id: clientId } = client;
  // The id alone: nodes of before there were other buckets call it so.
  const requests = limitOf('requests', clientId, client.rate_limit ?? defaults.requests, 1);
  const detokenize = limitOf(
    'detokenize',
    `${clientId}:detokenize`,
    client.detokenize_limit ?? defaults.detokenize,
    1,
  );
  const unknownTokens = limitOf(
    'unknown_tokens',
    `${clientId}:unknown`,
    client.unknown_token_limit ?? defaults.unknown_tokens,
    UNKNOWN_TOKENS_BURST_S,
  );
  const quotas = {
    tokenize: quotasOf(requests),
    detokenize: quotasOf(detokenize, unknownTokens),
  };
  return { requests, detokenize, unknown_tokens: unknownTokens, quotas };
}

/** undefined: the rate is 0, no limit. */
function limitOf(limit: LimitName, name: string, rate: number, burstS: number): Limit | undefined {
  if (rate === 0) return undefined;
  const size = Math.max(1, Math.floor(rate * burstS));
  const windowS = Math.max(burstS, Math.ceil(1 / rate));
  return { bucket: { name, rate, burstS }, quota: { limit, size, windowS } };
}

function quotasOf(...limits: readonly (Limit | undefined)[]): readonly Quota[] {
  return limits.flatMap((limit) => (limit === undefined ? [] : [limit.quota]));
}

function stateOf({ limit, windowS }: Quota, { left, retryAfterS }: Grant): LimitState {
  return { limit, left, windowS: left > 0 ? windowS : retryAfterS };
}

/** Tells of refusals: of the first, and then once a minute how many there were since. */
class Refusals {
  readonly tell: (clientId: string, limit: LimitName, refused: number) => void;
  /** At most one for each limit of each client. */
  readonly #byLimit = new Map<string, { toldAtMs: number; refused: number }>();

  constructor(tell: Refusals['tell']) {
    this.tell = tell;
  }

  count(clientId: string, limit: LimitName): void {
    const name = `${clientId} ${limit}`;
    const since = this.#byLimit.get(name) ?? { toldAtMs: -Infinity, refused: 0 };
    this.#byLimit.set(name, since);
    since.refused++;
    const nowMs = performance.now();
    if (nowMs - since.toldAtMs < TELL_INTERVAL_MS) return;
    this.tell(clientId, limit, since.refused);
    since.toldAtMs = nowMs;
    since.refused = 0;
  }
}
