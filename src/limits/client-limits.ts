import type { Client, DefaultLimits, LimitColumn } from '../client-settings.ts';
import { overloaded } from '../errors.ts';
import type { LimitName } from '../types.ts';
import {
  afterwards,
  atMostWhole,
  type Bucket,
  type Buckets,
  costOfKnown,
  type Grant,
  NO_OUTCOME,
  type Outcome,
} from './buckets.ts';

export type ClientOperation = 'tokenize' | 'detokenize' | 'lookup';

/** A client's limit, as reported to callers. */
export interface Quota {
  readonly limit: LimitName;
  readonly size: number;
  readonly windowS: number;
}

/** The decision of the limits on a request. */
export interface Admission {
  /** The quotas of the operation. Every request of a client gets the same array. */
  readonly quotas: readonly Quota[];
  /**
   * The state of the limit that refuses, else of the request limit; undefined: no request limit.
   * If the limit refuses, `left` is 0 and `windowS` is the time to wait.
   */
  readonly state: { limit: LimitName; left: number; windowS: number } | undefined;
  readonly isRefused: boolean;
}

/** A budget of unknown tokens holds one minute's worth of them. */
const UNKNOWN_TOKENS_BURST_S = 60;
const REPORT_INTERVAL_MS = 60_000;

/** A bucket, with the quota that callers see. */
interface Limit {
  readonly bucket: Bucket;
  readonly quota: Quota;
}

/** Called with a client's refusals by one limit since the last call, at most once a minute. */
type OnRefusals = (clientId: string, limit: LimitName, refused: number) => void;

/** Applies the limits of each client. */
export class ClientLimits {
  readonly #buckets: Buckets;
  readonly #lookUps: LookUps;
  readonly #defaults: DefaultLimits;
  readonly #onRefusals: OnRefusals;
  /** Refusals of each limit of each client that were not reported yet. */
  readonly #refusals = new Map<string, { reportedAtMs: number; refused: number }>();
  /**
   * Keyed by the Client object: a changed client is a new object, so its new limits apply at once.
   */
  readonly #limits = new WeakMap<Client, ReturnType<typeof limitsOf>>();

  constructor(buckets: Buckets, defaults: DefaultLimits, onRefusals: OnRefusals) {
    this.#buckets = buckets;
    this.#lookUps = new LookUps(buckets);
    this.#defaults = defaults;
    this.#onRefusals = onRefusals;
  }

  /** Counts a request. */
  admit(client: Client, operation: ClientOperation): Admission | Promise<Admission> {
    const limits = this.#of(client);
    const quotas = limits.quotas[operation];
    const ofRequests = limits.requests[operation];
    const taken = ofRequests && this.#buckets.charge(ofRequests.bucket, 1, NO_OUTCOME);
    const ofTokens = operation === 'detokenize' ? limits.unknownTokens : undefined;
    const spent = ofTokens && this.#lookUps.isSpent(ofTokens.bucket);
    return afterwards(taken, (grant) =>
      afterwards(spent, (retryAfterS): Admission => {
        if (ofRequests !== undefined && grant!.granted === 0)
          return this.#refuse(client, quotas, ofRequests, grant!.retryAfterS);
        if (retryAfterS !== undefined) return this.#refuse(client, quotas, ofTokens!, retryAfterS);
        const state = ofRequests && stateOf(ofRequests.quota, grant!);
        return { quotas, state, isRefused: false };
      }),
    );
  }

  /**
   * Reserves a guess for a request before its tokens are looked up. Call `charge` afterwards.
   * @returns undefined when the request may go on
   * @throws CallerError overloaded
   */
  reserve(client: Client): Admission | undefined | Promise<Admission | undefined> {
    const { unknownTokens: limit, quotas } = this.#of(client);
    if (limit === undefined) return undefined;
    return afterwards(this.#lookUps.reserve(limit.bucket), (retryAfterS) =>
      retryAfterS === undefined
        ? undefined
        : this.#refuse(client, quotas.detokenize, limit, retryAfterS),
    );
  }

  /**
   * Counts the distinct tokens of a request after `reserve`: those that the vault has, and those
   * that it has never issued. Resolves when later requests see the new count.
   * @param hasGaps whether the response tells all unknown tokens, and not only the first one
   * @returns undefined when the response may leave
   */
  charge(
    client: Client,
    { known, unknown }: { readonly known: number; readonly unknown: number },
    hasGaps: boolean,
  ): Admission | undefined | Promise<Admission | undefined> {
    const { unknownTokens: limit, quotas } = this.#of(client);
    if (limit === undefined) return undefined;
    const { bucket } = limit;
    const spent = atMostWhole(bucket, unknown);
    const tellsAll = unknown > 0 && hasGaps;
    const guessed = tellsAll
      ? spent + costOfKnown(bucket, known)
      : Math.max(Math.min(1, known), spent);
    // Known tokens beside an unknown one may be guesses whose values nobody got.
    const outcome = { ended: 1, known: unknown === 0 ? known : 0, unknown: spent, guessed };
    return afterwards(this.#lookUps.charge(bucket, outcome), ({ left, retryAfterS }) => {
      if (!tellsAll) return undefined;
      if (spent < unknown || left < 0) {
        const untilPaidS = retryAfterS + Math.ceil((guessed - 1) / bucket.rate);
        return this.#refuse(client, quotas.detokenize, limit, untilPaidS);
      }
      // Only now: right guesses must not pay for wrong ones of the same request.
      void this.#buckets.charge(bucket, 0, { ...NO_OUTCOME, known });
      return undefined;
    });
  }

  /** The most unknown tokens that a response to the client can tell. */
  mostUnknown(client: Client): number {
    return this.#of(client).unknownTokens?.quota.size ?? Number.POSITIVE_INFINITY;
  }

  #refuse(
    { client_id: clientId }: Client,
    quotas: readonly Quota[],
    { quota: { limit } }: Limit,
    retryAfterS: number,
  ): Admission {
    this.#countRefusal(clientId, limit);
    return { quotas, state: { limit, left: 0, windowS: retryAfterS }, isRefused: true };
  }

  /** Reports the first refusal at once, then the number of refusals once a minute. */
  #countRefusal(clientId: string, limit: LimitName): void {
    const name = `${clientId} ${limit}`;
    const since = this.#refusals.get(name) ?? { reportedAtMs: -Infinity, refused: 0 };
    this.#refusals.set(name, since);
    since.refused++;
    const nowMs = performance.now();
    if (nowMs - since.reportedAtMs < REPORT_INTERVAL_MS) return;
    this.#onRefusals(clientId, limit, since.refused);
    since.reportedAtMs = nowMs;
    since.refused = 0;
  }

  #of(client: Client) {
    let limits = this.#limits.get(client);
    if (limits === undefined) {
      limits = limitsOf(client, this.#defaults);
      this.#limits.set(client, limits);
    }
    return limits;
  }
}

const PERMISSIONS = {
  tokenize: 'can_tokenize',
  detokenize: 'can_detokenize',
  lookup: 'can_lookup',
} as const satisfies Record<ClientOperation, keyof Client>;

export function isAllowed(client: Client, operation: ClientOperation): boolean {
  return client[PERMISSIONS[operation]];
}

/** The limits of a client; undefined: none. */
function limitsOf(client: Client, defaults: DefaultLimits) {
  const limitOf = (
    limit: LimitName,
    column: LimitColumn,
    bucket: string,
    burstS = 1,
  ): Limit | undefined => {
    const rate = client[column] ?? defaults[column];
    if (rate === 0) return undefined;
    const size = Math.max(1, Math.floor(rate * burstS));
    const windowS = Math.max(burstS, Math.ceil(1 / rate));
    const name = client.client_id + bucket;
    const isBudget = limit === 'unknown_tokens';
    return { bucket: { name, rate, burstS, isBudget }, quota: { limit, size, windowS } };
  };
  // This bucket is named by the id alone. Older nodes that share the Redis use that name.
  const tokenize = limitOf('requests', 'rate_limit', '');
  const detokenize = limitOf('detokenize', 'detokenize_limit', ':detokenize');
  const lookup = limitOf('lookup', 'lookup_limit', ':lookup');
  const [column, bucket] = ['unknown_token_limit', ':unknown'] as const;
  const unknownTokens = limitOf('unknown_tokens', column, bucket, UNKNOWN_TOKENS_BURST_S);
  const quotas = {
    tokenize: quotasOf(tokenize),
    detokenize: quotasOf(detokenize, unknownTokens),
    lookup: quotasOf(lookup),
  };
  return { requests: { tokenize, detokenize, lookup }, unknownTokens, quotas };
}

function quotasOf(...limits: readonly (Limit | undefined)[]): readonly Quota[] {
  return limits.flatMap((limit) => (limit === undefined ? [] : [limit.quota]));
}

function stateOf({ limit, windowS }: Quota, { left, retryAfterS }: Grant) {
  return { limit, left, windowS: left > 0 ? windowS : retryAfterS };
}

/** A request that gets no place within this time is answered with 503. */
const MAX_WAIT_MS = 1_000;

/** undefined: go on; otherwise whole seconds until the budget has a guess again. */
type RetryAfter = number | undefined;

/** A request that waits for a place. */
interface Waiter {
  readonly resolve: (retryAfterS: RetryAfter) => void;
  readonly timer: NodeJS.Timeout;
  hasGone: boolean;
}

/** The requests of one budget in this process. */
interface Gate {
  /** Requests that have reserved a place, or are about to. */
  underWay: number;
  waiting: Waiter[];
}

/**
 * Bounds the requests that look tokens up at the same time: never more than the budget could pay
 * for if each held a wrong guess. Further requests wait for a place. Most requests return their
 * place, so many parallel requests with known tokens are not refused.
 */
export class LookUps {
  readonly #buckets: Pick<Buckets, 'charge'>;
  readonly #gates = new Map<string, Gate>();
  /** Budgets that had nothing left when last asked: at most one for each client. */
  readonly #spent = new Set<string>();

  constructor(buckets: Pick<Buckets, 'charge'>) {
    this.#buckets = buckets;
  }

  /**
   * Whether the budget is spent, as far as this process knows. If another process has spent it,
   * `reserve` finds out.
   */
  isSpent(bucket: Bucket): RetryAfter | Promise<RetryAfter> {
    const { name } = bucket;
    // Requests in progress may return their places, so waiting is worthwhile.
    if (!this.#spent.has(name) || this.#gates.has(name)) return undefined;
    const looked = this.#buckets.charge(bucket, 0, NO_OUTCOME);
    return afterwards(looked, ({ left, retryAfterS }) => {
      if (left <= 0) return retryAfterS;
      this.#spent.delete(name);
      return undefined;
    });
  }

  /**
   * Reserves a place for a request, which must call `charge` afterwards.
   * @throws CallerError overloaded when the requests in progress take too long
   */
  reserve(bucket: Bucket): RetryAfter | Promise<RetryAfter> {
    const { name } = bucket;
    const gate: Gate = this.#gates.get(name) ?? { underWay: 0, waiting: [] };
    this.#gates.set(name, gate);
    if (gate.waiting.length > 0) return wait(gate);
    gate.underWay++;
    const reserved = this.#buckets.charge(bucket, 1, NO_OUTCOME);
    return afterwards(reserved, (grant) => this.#enter(name, gate, grant));
  }

  /** Returns the place of a request and counts its outcome. Resolves when later requests see it. */
  charge(bucket: Bucket, outcome: Outcome): Grant | Promise<Grant> {
    const gate = this.#gates.get(bucket.name)!;
    const waiters = gate.waiting.splice(0);
    const charged = this.#buckets.charge(bucket, waiters.length, outcome);
    return afterwards(charged, (grant) => {
      this.#leave(bucket, waiters, grant);
      return grant;
    });
  }

  #enter(
    name: string,
    gate: Gate,
    { granted, retryAfterS }: Grant,
  ): RetryAfter | Promise<RetryAfter> {
    if (granted === 1) return undefined;
    if (gate.underWay > 1) {
      gate.underWay--;
      return wait(gate);
    }
    this.#spent.add(name);
    this.#end(name, gate, retryAfterS);
    return retryAfterS;
  }

  #leave(bucket: Bucket, waiters: Waiter[], { granted, left, retryAfterS }: Grant): void {
    const gate = this.#gates.get(bucket.name)!;
    const admitted = waiters.splice(0, granted);
    gate.waiting.unshift(...waiters.filter((waiter) => !waiter.hasGone));
    gate.underWay += granted - 1;
    if (left <= 0) this.#spent.add(bucket.name);
    if (gate.underWay === 0) this.#end(bucket.name, gate, retryAfterS);
    for (const waiter of admitted) {
      if (waiter.hasGone) void this.charge(bucket, { ...NO_OUTCOME, ended: 1 });
      else release(waiter, undefined);
    }
  }

  /** No request is left that could return a place, so waiters are refused. */
  #end(name: string, { waiting }: Gate, retryAfterS: number): void {
    this.#gates.delete(name);
    for (const waiter of waiting) release(waiter, Math.max(1, retryAfterS));
  }
}

function wait(gate: Gate): Promise<RetryAfter> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      waiter.hasGone = true;
      gate.waiting = gate.waiting.filter((one) => one !== waiter);
      reject(overloaded());
    }, MAX_WAIT_MS);
    const waiter: Waiter = { resolve, timer, hasGone: false };
    gate.waiting.push(waiter);
  });
}

function release({ resolve, timer }: Waiter, retryAfterS: RetryAfter): void {
  clearTimeout(timer);
  resolve(retryAfterS);
}
