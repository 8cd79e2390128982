import type {
  ClientDetail,
  ClientFacts,
  ClientState,
  ClientsState,
  ConsoleState,
  KeysState,
  PolicyDetail,
  PolicyState,
  SeenKind,
} from '#console';
import { isCounted } from '../../access/api-key-uses.ts';
import { clientOf } from '../../access/clients.ts';
import {
  type Client,
  type DefaultLimits,
  LIMITS_OF,
  RIGHT_NAMES,
  wordsOf,
} from '../../client-settings.ts';
import { operatorError } from '../../errors.ts';
import { describePolicy, seenBy } from '../../policy/policies.ts';
import { ELSEWHERE } from '../../policy/policy.ts';
import { type PolicyFollower, tagOf } from '../../policy/policy-follower.ts';
import { leaseMs, monotonicMs, POLICY_LEASE_MS } from '../../timeouts.ts';
import { Health } from '../../tokens/health.ts';
import { type KeyCounts, keyCounts } from '../../vault/key-lifecycle.ts';
import type { KeyringFollower } from '../../vault/keyring-follower.ts';
import type { Vault } from '../../vault/vault.ts';
import { keptFresh, type VaultSizes } from '../../vault/vault-size.ts';
import type { Sampler } from './sampler.ts';

/** All readers within this time get the same state. */
const FRESH_FOR_MS = 1_000;
const TIMEOUT_MS = 3_000;
const MAX_SHOWN_CLIENTS = 200;

interface CurrentStateOptions {
  /** The parts of the state that need no database. */
  readonly facts: () => Omit<
    ConsoleState,
    'at' | 'database' | 'areLimitsShared' | 'vault' | 'keys' | 'clients' | 'policy' | 'detections'
  >;
  readonly databaseKind: ConsoleState['database']['kind'];
  readonly limits: DefaultLimits;
  readonly vault: Vault;
  readonly keys: KeyringFollower;
  readonly sizes: VaultSizes;
  readonly sampler: Sampler;
  readonly policies: PolicyFollower;
  readonly tokenSuffix: string;
}

/** Reads the state of the service on demand. */
export class CurrentState {
  readonly #options: CurrentStateOptions;
  readonly #health: Health;
  readonly #policy: PolicyInForce;
  #state: Promise<ConsoleState> | undefined;
  #askedAtMs = -Infinity;
  /** null: the database takes longer than a reader would wait. */
  readonly #countKeys: () => Promise<KeyCounts | null>;

  constructor(options: CurrentStateOptions) {
    this.#options = options;
    this.#health = new Health(options.vault.vital.health);
    this.#policy = new PolicyInForce(options.policies, options.tokenSuffix);
    const { vault } = options;
    this.#countKeys = keptFresh(() =>
      keyCounts(vault, performance.now() + TIMEOUT_MS).catch(() => null),
    );
  }

  /** Never fails: unreadable parts are null. */
  read(): Promise<ConsoleState> {
    if (this.#state === undefined || performance.now() - this.#askedAtMs >= FRESH_FOR_MS) {
      this.#askedAtMs = performance.now();
      this.#state = this.#ask();
    }
    return this.#state;
  }

  /**
   * A client with its API keys; undefined: there is no such client.
   * @throws Unavailable
   */
  async client(clientId: string): Promise<ClientDetail<Date> | undefined> {
    const deadlineMs = performance.now() + TIMEOUT_MS;
    const clients = await this.#options.vault.clients.list(deadlineMs);
    const client = clients.find((one) => one.client_id === clientId);
    return client && this.#detailOf(client, deadlineMs);
  }

  /**
   * The client of an API key; undefined: no valid API key is the same.
   * @throws Unavailable
   */
  async clientOf(apiKey: string): Promise<ClientDetail<Date> | undefined> {
    const deadlineMs = performance.now() + TIMEOUT_MS;
    const client = await clientOf(this.#options.vault, apiKey, deadlineMs);
    return client && this.#detailOf(client, deadlineMs);
  }

  /** The policy of this node. Without its document if the vault has another one by now. */
  async policy(): Promise<PolicyDetail> {
    const { detail } = this.#policy;
    const { version, tag } = detail;
    const deadlineMs = performance.now() + TIMEOUT_MS;
    const get = () => this.#options.vault.policies.get(version, deadlineMs).catch(() => null);
    const stored = tag === null ? null : await get();
    const isSame = stored && tagOf(stored.document) === tag;
    return { ...detail, document: isSame ? stored.document : null };
  }

  /** The facts that a list of clients and the page of a client show. */
  #factsOf(client: Client): ClientFacts {
    const { subject: _, created_at: __, disabled_at: ___, ...facts } = client;
    return { ...facts, strings: this.#options.sampler.stringsOf(client.client_id) };
  }

  async #detailOf(client: Client, deadlineMs: number): Promise<ClientDetail<Date>> {
    const { vault, sampler, limits } = this.#options;
    const { client_id: clientId } = client;
    return {
      ...this.#factsOf(client),
      ...{ created_at: client.created_at, disabled_at: client.disabled_at },
      sees: this.#policy.seenBy(client),
      limits: rightsOf(client)
        .flatMap((right) => LIMITS_OF[right])
        .map((name) => ({
          ...{ name, words: `${wordsOf(name)} per second` },
          ...{ perS: client[name] ?? limits[name], isOwn: client[name] !== null },
        })),
      api_keys: await vault.apiKeys.list(clientId, deadlineMs),
      rates: sampler.ratesOf(clientId),
    };
  }

  async #ask(): Promise<ConsoleState> {
    const { facts, databaseKind, sampler, sizes } = this.#options;
    const isUp = await this.#health.isDatabaseUp();
    const deadlineMs = performance.now() + TIMEOUT_MS;
    const ifUp = <T>(part: (deadlineMs: number) => Promise<T>) =>
      isUp ? part(deadlineMs).catch(() => null) : null;
    const [vault, keys, clients] = await Promise.all([
      ifUp(async () => ({ ...(await sizes.read()), growth: sizes.growth.points })),
      ifUp((deadlineMs) => this.#keys(deadlineMs)),
      ifUp((deadlineMs) => this.#clients(deadlineMs)),
    ]);
    return {
      ...facts(),
      at: new Date().toISOString(),
      database: { kind: databaseKind, isUp, isSafe: sampler.is('isDatabaseSafe') },
      areLimitsShared: sampler.is('areLimitsShared'),
      vault,
      keys,
      clients,
      policy: this.#policy.state,
      detections: sampler.detections,
    };
  }

  async #keys(deadlineMs: number): Promise<KeysState> {
    const { vault, keys } = this.#options;
    const deks = (await vault.wrappedKeys.list(deadlineMs)).filter(
      ({ purpose }) => purpose === 'dek',
    );
    const byVersion = await this.#countKeys();
    const newest = Math.max(...deks.map(({ version }) => version));
    const all = byVersion && [...byVersion.values()].reduce((sum, count) => sum + count, 0);
    const ageS = (monotonicMs() - keys.latest.asOfMs) / 1000;
    return {
      versions: deks.map(({ version, created_at: createdAt }) => ({
        version,
        created_at: createdAt.toISOString(),
        isNewest: version === newest,
        records: byVersion && (byVersion.get(version) ?? 0),
      })),
      // The age is infinite if the newest key is gone from the database. JSON has no infinity.
      age_s: Math.min(ageS, process.uptime()),
      resealed: byVersion && (all === 0 ? 1 : (byVersion.get(newest) ?? 0) / all!),
    };
  }

  async #clients(deadlineMs: number): Promise<ClientsState> {
    const { vault, sampler, limits } = this.#options;
    const [clients, uses] = await Promise.all([
      vault.clients.list(deadlineMs),
      vault.apiKeys.usesOfClients(deadlineMs),
    ]);
    const now = new Date();
    const states = clients.map((client, rank): ClientState => {
      const use = uses.get(client.client_id);
      const requestsPerS = isCounted(rank) ? sampler.rateOf(client.client_id) : null;
      // The vault learns of a use only after up to a minute.
      const lastUsedAt = requestsPerS ? now : use?.last_used_at;
      return {
        ...this.#factsOf(client),
        isDisabled: client.disabled_at !== null,
        liveApiKeys: use?.liveApiKeys ?? 0,
        last_used_at: lastUsedAt?.toISOString() ?? null,
        requestsPerS,
        limitPerS: limitOf(client, limits),
      };
    });
    states.sort(byLastUse);
    const shown = states.slice(0, MAX_SHOWN_CLIENTS);
    return { shown, others: states.length - shown.length };
  }
}

const rightsOf = (client: Client) => RIGHT_NAMES.filter((right) => client[right]);

/** null: one of its operations has no limit. */
function limitOf(client: Client, limits: DefaultLimits): number | null {
  const names = rightsOf(client).map((right) => LIMITS_OF[right][0]);
  const perS = names.map((name) => client[name] ?? limits[name]);
  return perS.includes(0) ? null : perS.reduce((sum, one) => sum + one, 0);
}

type Used = Pick<ClientState, 'last_used_at' | 'requestsPerS'>;

export function byLastUse(a: Used, b: Used): number {
  const [earlier, later] = [a.last_used_at ?? '', b.last_used_at ?? ''];
  if (earlier !== later) return earlier < later ? 1 : -1;
  return (b.requestsPerS ?? 0) - (a.requestsPerS ?? 0);
}

/** The policy of this node, for readers. */
export class PolicyInForce {
  readonly #follower: PolicyFollower;
  readonly #suffix: string;
  #detail: Omit<PolicyDetail, 'document'> = {
    ...{ version: 0, tag: null, kinds: [], fields: null },
    ...{ elsewhere: 'tokenize', elsewhereWords: ELSEWHERE.tokenize },
  };

  constructor(follower: PolicyFollower, suffix: string) {
    this.#follower = follower;
    this.#suffix = suffix;
  }

  get state(): PolicyState {
    const { policy, problem, asOfMs } = this.#follower.latest;
    const isOld = leaseMs() - asOfMs >= POLICY_LEASE_MS;
    const words = operatorError(problem)?.message ?? 'The database does not answer.';
    return { version: policy.version, tag: policy.tag || null, problem: isOld ? words : null };
  }

  /** The tokens of the examples stay the same as long as the policy does. */
  get detail(): Omit<PolicyDetail, 'document'> {
    const { policy } = this.#follower.latest;
    const { version, tag } = this.#detail;
    if (policy.version > 0 && (policy.version !== version || policy.tag !== tag)) {
      const described = describePolicy(policy, this.#suffix);
      this.#detail = { version: policy.version, tag: policy.tag, ...described };
    }
    return this.#detail;
  }

  /** null: there is no policy, or the client may not detokenize. */
  seenBy(client: Client): readonly SeenKind[] | null {
    const { policy } = this.#follower.latest;
    if (policy.version === 0 || !client.can_detokenize) return null;
    const rights = seenBy(policy, client);
    return this.detail.kinds.map(({ name, example }): SeenKind => {
      const right = rights[name]!;
      const mask = 'mask' in example ? example.mask : null;
      const shown = { full: example.value, masked: mask, none: null };
      return { kind: name, right, example: shown[right] };
    });
  }
}
