import type { Kind } from '../../policy/rules.ts';
import { defaultKind, kindOf } from '../../shape/kind.ts';
import type { KindSettings } from '../../shape/kind-settings.ts';
import { spellerOf } from '../../shape/spelling.ts';
import type { PolicyStore } from '../../store/policies.ts';
import { commandDeadline } from '../../timeouts.ts';
import { DEFAULT_KIND } from '../../types.ts';
import { policyOf, UnreadablePolicy } from '../policy-follower.ts';

/** The settings of a name over all versions. */
interface Named {
  /** By the settings that decide about a token. */
  readonly drawing: Map<string, Kind>;
  /** By the settings that decide about a value. */
  readonly spellers: Map<string, ReturnType<typeof spellerOf>>;
}

/** The kinds as all versions of the policy had them. Tokens of each version are valid for ever. */
export class KindHistory {
  readonly #store: PolicyStore;
  readonly #byName = new Map<string, Named>();
  /** Versions with their times: after a failover, another document can have the same number. */
  readonly #read = new Set<string>();
  readonly #unreadable = new Set<number>();
  #updated: Promise<void> = Promise.resolve();

  constructor(store: PolicyStore) {
    this.#store = store;
    this.#add(defaultKind(DEFAULT_KIND, DEFAULT_KIND));
  }

  /** Reads the versions that it does not know yet. Calls take turns: no document is read twice. */
  update(): Promise<void> {
    this.#updated = this.#updated.catch(() => {}).then(() => this.#update());
    return this.#updated;
  }

  async #update(): Promise<void> {
    for (const { version, applied_at: appliedAt } of await this.#store.list(commandDeadline())) {
      const id = `${version} ${appliedAt.toISOString()}`;
      if (this.#read.has(id)) continue;
      const stored = await this.#store.get(version, commandDeadline());
      try {
        for (const settings of policyOf(stored!).kinds) this.#add(settings);
      } catch (error) {
        if (!(error instanceof UnreadablePolicy)) throw error;
        this.#unreadable.add(version);
      }
      this.#read.add(id);
    }
  }

  /** Versions that this program cannot read. */
  get unreadable(): readonly number[] {
    return [...this.#unreadable].toSorted((a, b) => a - b);
  }

  /** Whether versions of a kind normalized values in several ways. */
  get hasSpellings(): boolean {
    return [...this.#byName.values()].some(({ spellers }) => spellers.size > 1);
  }

  get names(): readonly string[] {
    return [...this.#byName.keys()];
  }

  /** The kinds of a name that drew tokens from values; none drew the same token as another. */
  drawing(name: string): readonly Kind[] {
    return [...(this.#byName.get(name)?.drawing.values() ?? [])];
  }

  /** How records of a kind may have the text: as it is, and as each version normalized it. */
  spellings(name: string, text: string): ReadonlySet<string> {
    const all = new Set([text]);
    for (const spell of this.#byName.get(name)?.spellers.values() ?? []) {
      const spelled = spell(text);
      if (typeof spelled === 'string') all.add(spelled);
    }
    return all;
  }

  /** Equal for names whose `spellings` of a text are equal. */
  spellingKey(name: string): string {
    return [...(this.#byName.get(name)?.spellers.keys() ?? [])].toSorted().join();
  }

  #add(settings: KindSettings): void {
    const { name, spelling, country, tokens } = settings;
    const named = this.#byName.get(name) ?? { drawing: new Map(), spellers: new Map() };
    this.#byName.set(name, named);
    const spellingKey = JSON.stringify([spelling, country]);
    if (!named.spellers.has(spellingKey)) named.spellers.set(spellingKey, spellerOf(settings));
    const key = JSON.stringify({ ...settings, mask: null, tokens: null, time_to_live_s: null });
    if (tokens !== 'random' && !named.drawing.has(key)) named.drawing.set(key, kindOf(settings));
  }
}
