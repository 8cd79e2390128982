import { NO_POLICY, type Policy } from '../policy/policy.ts';
import { type ReadPolicies, readPolicies } from '../policy/policy-follower.ts';
import { PolicyRules } from '../policy/rules.ts';
import { type Kind, kindOf, OLDER_TEXT } from '../shape/kind.ts';
import type { KindSettings } from '../shape/kind-settings.ts';
import { normalizerOf } from '../shape/normalize.ts';
import type { DrawBits, Drawn } from '../shape/token.ts';
import type { PolicyStore, PolicyVersion, StoredPolicy } from '../store/policies.ts';
import { commandDeadline } from '../timeouts.ts';
import { DEFAULT_KIND, type Token, type Value } from '../types.ts';
import type { Vault } from '../vault/vault.ts';

/** Versions of the policy: a start of a thread for each would take as long as their reading. */
const MAX_READ_AT_ONCE = 16;

/** The kinds and normalizers that versions of the policy gave to a name. */
interface Named {
  /** By what decides about a token. */
  readonly kinds: Map<string, Kind>;
  /** By what decides about a value. */
  readonly normalizers: Map<string, ReturnType<typeof normalizerOf>>;
}

/** The kinds of all versions of the policy, and of older programs: each drew tokens. */
export class EveryKind {
  readonly #store: PolicyStore;
  readonly #readPolicies: ReadPolicies;
  /** Of tokens. */
  readonly suffix: string;
  readonly #byName = new Map<string, Named>();
  readonly #read = new Set<string>();
  readonly #unreadable = new Set<number>();
  #newest = new PolicyRules(NO_POLICY);
  #updated: Promise<void> = Promise.resolve();

  constructor(
    { policies }: Pick<Vault, 'policies'>,
    suffix: string,
    read: ReadPolicies = readPolicies,
  ) {
    this.#store = policies;
    this.suffix = suffix;
    this.#readPolicies = read;
    for (const settings of NO_POLICY.kinds) this.#add(settings);
    this.#named(DEFAULT_KIND).kinds.set('older', OLDER_TEXT);
  }

  static async read(vault: Vault, suffix: string): Promise<EveryKind> {
    const kinds = new EveryKind(vault, suffix);
    await kinds.update();
    return kinds;
  }

  /** Reads the versions that it does not know yet. Calls take turns: no document is read twice. */
  update(): Promise<void> {
    this.#updated = this.#updated.catch(() => {}).then(() => this.#update());
    return this.#updated;
  }

  async #update(): Promise<void> {
    let newest: Policy | undefined;
    const listed = await this.#store.list(commandDeadline());
    const news = listed.filter((version) => !this.#read.has(idOf(version)));
    for (let from = 0; from < news.length; from += MAX_READ_AT_ONCE) {
      const stored: StoredPolicy[] = [];
      for (const { version } of news.slice(from, from + MAX_READ_AT_ONCE))
        stored.push((await this.#store.get(version, commandDeadline()))!);
      for (const [i, policy] of (await this.#readPolicies(stored)).entries()) {
        if (typeof policy === 'string') this.#unreadable.add(stored[i]!.version);
        else {
          newest ??= policy;
          for (const settings of policy.kinds) this.#add(settings);
        }
        this.#read.add(idOf(stored[i]!));
      }
    }
    if (newest !== undefined) this.#newest = new PolicyRules(newest);
  }

  /** The newest version of the policy that this program can read. */
  get newest(): PolicyRules {
    return this.#newest;
  }

  /** Versions that this program cannot read. */
  get unreadable(): readonly number[] {
    return [...this.#unreadable].toSorted((a, b) => a - b);
  }

  get names(): readonly string[] {
    return [...this.#byName.keys()];
  }

  /** Whether versions of a kind normalized values in several ways. */
  get hasSpellings(): boolean {
    return [...this.#byName.values()].some(({ normalizers }) => normalizers.size > 1);
  }

  /** The kind as the newest policy has it: the same object as `draws` gives. */
  kindNow(name: string): Kind {
    return this.#of(name).kinds.get(keyOf(this.#newest.kind(name).settings))!;
  }

  /** The kinds of a name that draw from values; none draws the same tokens as another. */
  deterministic(name: string): readonly Kind[] {
    return [...this.#of(name).kinds.values()].filter(
      ({ settings }) => settings.tokens !== 'random',
    );
  }

  /** The draw of the value that matches, under each version of the kind that has one. */
  *draws(
    name: string,
    value: Value,
    draws: DrawBits,
    isMatch: (token: Token) => boolean,
  ): Generator<{ readonly kind: Kind; readonly drawn: Drawn }> {
    for (const kind of this.#of(name).kinds.values()) {
      // What this version of the kind refuses, it did not draw.
      if ('reason' in kind.accept(value)) continue;
      const draw = (from: number) => kind.drawToken(value, this.suffix, draws, from);
      let drawn = draw(0);
      while (drawn !== undefined && !isMatch(drawn.token)) drawn = draw(drawn.draw + 1);
      if (drawn !== undefined) yield { kind, drawn };
    }
  }

  /** How records of a kind may have the text: as it is, and as each version normalized it. */
  spellings(name: string, text: string): ReadonlySet<string> {
    const all = new Set([text]);
    for (const normalize of this.#of(name).normalizers.values()) {
      const spelled = normalize(text);
      if (typeof spelled === 'string') all.add(spelled);
    }
    return all;
  }

  /** Equal for names whose `spellings` of a text are equal. */
  spellingKey(name: string): string {
    return [...this.#of(name).normalizers.keys()].toSorted().join();
  }

  #add(settings: KindSettings): void {
    const { kinds, normalizers } = this.#named(settings.name);
    const normal = JSON.stringify([settings.normalize, settings.country]);
    if (!normalizers.has(normal)) normalizers.set(normal, normalizerOf(settings));
    const key = keyOf(settings);
    if (!kinds.has(key)) kinds.set(key, kindOf(settings));
  }

  #of(name: string): Named {
    return this.#byName.get(name) ?? { kinds: new Map(), normalizers: new Map() };
  }

  #named(name: string): Named {
    const named = this.#of(name);
    this.#byName.set(name, named);
    return named;
  }
}

/** With its time: after a failover, another document can have the same number. */
function idOf({ version, applied_at: appliedAt }: PolicyVersion): string {
  return `${version} ${appliedAt.toISOString()}`;
}

/** Equal for kinds that draw the same tokens. */
function keyOf(settings: KindSettings): string {
  const tokens = settings.tokens === 'random';
  return JSON.stringify({ ...settings, tokens, mask: null, time_to_live_s: null });
}
