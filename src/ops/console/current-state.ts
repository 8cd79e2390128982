import type { ClientState, ClientsState, ConsoleState, KeysState, VaultState } from '#console';
import { isCounted } from '../../service/api-key-uses.ts';
import { Health } from '../../service/health.ts';
import { type KeyCounts, keyCounts } from '../../service/keys/key-lifecycle.ts';
import { monotonicMs } from '../../service/keys/key-news.ts';
import type { KeyRenewal } from '../../service/keys/key-renewal.ts';
import type { Vault } from '../../service/vault.ts';
import { freshFor, type VaultSizes } from '../../service/vault-size.ts';
import type { Sampler } from './sampler.ts';

/** Everybody who looks within it is told the same. */
const FRESH_FOR_MS = 1_000;
const PATIENCE_MS = 3_000;
const MAX_SHOWN_CLIENTS = 200;

/** What the process knows without its database. */
export interface Facts {
  readonly started_at: Date;
  readonly version: string;
  readonly interface_version: string;
  readonly database: 'embedded' | 'postgres';
  /** Requests a second of a client without a limit of its own; 0: no limit. */
  readonly rate_limit: number;
  /** undefined: no license is asked for. */
  readonly licenseDaysLeft: (() => number) | undefined;
  /** undefined: HTTP in clear. */
  readonly certificateExpires: (() => Date) | undefined;
}

export interface CurrentStateOptions {
  /** Of the public listener. */
  readonly url: string;
  readonly facts: Facts;
  readonly vault: Vault;
  readonly keys: KeyRenewal;
  readonly sizes: VaultSizes;
  readonly sampler: Sampler;
}

/** Reads the state when somebody wants to see it. */
export class CurrentState {
  readonly #options: CurrentStateOptions;
  readonly #health: Health;
  #state: Promise<ConsoleState> | undefined;
  #asked_at_ms = -Infinity;
  #key_counts: KeyCounts | undefined;
  #counts_fresh_until_ms = -Infinity;

  constructor(options: CurrentStateOptions) {
    this.#options = options;
    this.#health = new Health(options.vault.vital.health);
  }

  /** Never fails: what cannot be read is null. */
  read(): Promise<ConsoleState> {
    if (this.#state === undefined || performance.now() - this.#asked_at_ms >= FRESH_FOR_MS) {
      this.#asked_at_ms = performance.now();
      this.#state = this.#ask();
    }
    return this.#state;
  }

  async #ask(): Promise<ConsoleState> {
    const { url, facts, sampler } = this.#options;
    const is_up = await this.#health.isDatabaseUp();
    const deadline_ms = performance.now() + PATIENCE_MS;
    const ifUp = <T>(part: (deadline_ms: number) => Promise<T>) =>
      is_up ? part(deadline_ms).catch(() => null) : null;
    const [vault, keys, clients] = await Promise.all([
      ifUp(() => this.#vault()),
      ifUp((deadline_ms) => this.#keys(deadline_ms)),
      ifUp((deadline_ms) => this.#clients(deadline_ms)),
    ]);
    const expires_at = facts.certificateExpires?.();
    return {
      at: new Date().toISOString(),
      started_at: facts.started_at.toISOString(),
      service_url: url,
      version: facts.version,
      interface_version: facts.interface_version,
      database: { kind: facts.database, is_up, is_safe: sampler.is_database_safe },
      license: facts.licenseDaysLeft ? { days_left: facts.licenseDaysLeft() } : null,
      certificate: expires_at ? { expires_at: expires_at.toISOString() } : null,
      are_limits_shared: sampler.are_limits_shared,
      vault,
      keys,
      clients,
    };
  }

  async #vault(): Promise<VaultState> {
    const { sizes } = this.#options;
    return { ...(await sizes.read()), growth: sizes.growth };
  }

  async #keys(deadline_ms: number): Promise<KeysState> {
    const { vault, keys } = this.#options;
    const deks = (await vault.keyring_store.list(deadline_ms)).filter(
      ({ purpose }) => purpose === 'dek',
    );
    const by_version = await this.#countKeys(deadline_ms);
    const newest = Math.max(...deks.map(({ version }) => version));
    const all = by_version && [...by_version.values()].reduce((sum, count) => sum + count, 0);
    const age_s = (monotonicMs() - keys.latest.as_of_ms) / 1000;
    return {
      versions: deks.map(({ version, created_at }) => ({
        version,
        created_at: created_at.toISOString(),
        is_newest: version === newest,
        records: by_version && (by_version.get(version) ?? 0),
      })),
      // Infinite while the newest key is gone from the database, which JSON cannot say.
      age_s: Math.min(age_s, process.uptime()),
      resealed: by_version && (all === 0 ? 1 : (by_version.get(newest) ?? 0) / all!),
    };
  }

  /** null: it takes the database longer than somebody who looks would wait. */
  async #countKeys(deadline_ms: number): Promise<KeyCounts | null> {
    const asked_at_ms = performance.now();
    if (asked_at_ms >= this.#counts_fresh_until_ms) {
      this.#key_counts = await keyCounts(this.#options.vault, deadline_ms).catch(() => undefined);
      const now_ms = performance.now();
      this.#counts_fresh_until_ms = now_ms + freshFor(now_ms - asked_at_ms);
    }
    return this.#key_counts ?? null;
  }

  async #clients(deadline_ms: number): Promise<ClientsState> {
    const { vault, sampler, facts } = this.#options;
    const [clients, uses] = await Promise.all([
      vault.clients.list(deadline_ms),
      vault.api_key_uses.ofClients(deadline_ms),
    ]);
    const now = new Date();
    const states = clients.map((client, rank): ClientState => {
      const { client_id, name, can_tokenize, can_detokenize, token_mode } = client;
      const use = uses.get(client_id);
      const requests_per_s = isCounted(rank) ? sampler.rateOf(client_id) : null;
      // What is used now is in the vault in a minute at the latest.
      const last_used_at = requests_per_s ? now : (use?.last_used_at ?? null);
      return {
        client_id,
        name,
        is_disabled: client.disabled_at !== null,
        can_tokenize,
        can_detokenize,
        token_mode,
        live_api_keys: use?.live_api_keys ?? 0,
        last_used_at: last_used_at?.toISOString() ?? null,
        requests_per_s,
        rate_limit: (client.rate_limit ?? facts.rate_limit) || null,
      };
    });
    states.sort(byLastUse);
    const shown = states.slice(0, MAX_SHOWN_CLIENTS);
    return { shown, others: states.length - shown.length };
  }
}

function byLastUse(a: ClientState, b: ClientState): number {
  const [earlier, later] = [a.last_used_at ?? '', b.last_used_at ?? ''];
  if (earlier !== later) return earlier < later ? 1 : -1;
  return (b.requests_per_s ?? 0) - (a.requests_per_s ?? 0);
}
