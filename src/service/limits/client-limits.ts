import type { Client, LimitName } from '../../types.ts';
import type { Bucket, Grant, RateLimiter } from './bucket.ts';
import { atMostWhole } from './guess-budget.ts';
import { LookUps } from './look-ups.ts';

export type ClientOperation = 'tokenize' | 'detokenize';

/** Limits a second for clients without their own; 0: no limit. */
export interface DefaultLimits {
  readonly requests: number;
  readonly detokenize: number;
  readonly unknown_tokens: number;
}

/** A client's limit, as reported to callers. */
export interface Quota {
  readonly limit: LimitName;
  readonly size: number;
  readonly windowS: number;
}

/**
 * The current state of a limit. If the limit refuses, `left` is 0 and `windowS` is the time to
 * wait.
 */
export interface LimitState {
  readonly limit: LimitName;
  readonly left: number;
  readonly windowS: number;
}

/** The decision of the limits on a request. */
export interface Admission {
  /** The quotas of the operation. Every request of a client gets the same array. */
  readonly quotas: readonly Quota[];
  /**
   * The state of the limit that refuses, else of the request limit; undefined: no request limit.
   */
  readonly state: LimitState | undefined;
  readonly isRefused: boolean;
}

/** Counts of the distinct tokens of a request. */
export interface TokenCounts {
  readonly known: number;
  /** Tokens that the vault has never issued. */
  readonly unknown: number;
}

/** A budget of unknown tokens holds one minute's worth of them. */
const UNKNOWN_TOKENS_BURST_S = 60;
const TELL_INTERVAL_MS = 60_000;

/** A bucket, with the quota that callers see. */
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

/** Applies the limits of each client. */
export class ClientLimits {
  readonly #rateLimiter: RateLimiter;
  readonly #lookUps: LookUps;
  readonly #defaults: DefaultLimits;
  readonly #refusals: Refusals;
  /**
   * Keyed by the Client object: a changed client is a new object, so its new limits apply at once.
   */
  readonly #limits = new WeakMap<Client, Limits>();

  /** @param tell called with a client's refusals by one limit, at most once a minute */
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
   * Reserves a guess for a request before its tokens are looked up. Call `settle` afterwards.
   * @returns undefined when the request may go on
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

  /**
   * Counts the tokens of a request after `reserve`. Resolves when later requests see the new count.
   */
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
  // This bucket is named by the id alone. Older nodes that share the Redis use that name.
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

/** undefined: rate 0, so no limit. */
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

/** Reports the first refusal at once, then the number of refusals once a minute. */
class Refusals {
  readonly tell: (clientId: string, limit: LimitName, refused: number) => void;
  /** One entry for each limit of each client. */
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
