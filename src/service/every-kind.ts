import { PolicyRules } from '../policy/rules.ts';
import { type Kind, OLDER_TEXT } from '../shape/kind.ts';
import type { Drawn, Draws } from '../shape/token.ts';
import { commandDeadline } from '../timeouts.ts';
import { DEFAULT_KIND, type Token, type Value } from '../types.ts';
import { policyOf, UnreadablePolicy } from './policy-follower.ts';
import type { Vault } from './vault.ts';

/** The kinds of all versions of the policy, and of older programs: each drew tokens. */
export class EveryKind {
  /** The newest version of the policy. */
  readonly newest: PolicyRules;
  readonly #suffix: string;
  readonly #byName = new Map<string, Kind[]>();

  /** @param policies all versions, the newest first */
  private constructor(policies: readonly PolicyRules[], suffix: string) {
    this.newest = policies[0]!;
    this.#suffix = suffix;
    const seen = new Set<string>();
    for (const kind of policies.flatMap(({ kinds }) => kinds)) {
      const text = JSON.stringify(kind.settings);
      if (seen.has(text)) continue;
      seen.add(text);
      this.#kindsOf(kind.settings.name).push(kind);
    }
    this.#kindsOf(DEFAULT_KIND).push(OLDER_TEXT);
  }

  /** Leaves out versions that this program cannot read. */
  static async read({ policies }: Vault, suffix: string): Promise<EveryKind> {
    const all: PolicyRules[] = [];
    for (const { version } of await policies.list(commandDeadline())) {
      const stored = await policies.get(version, commandDeadline());
      try {
        all.push(new PolicyRules(policyOf(stored!)));
      } catch (error) {
        if (!(error instanceof UnreadablePolicy)) throw error;
      }
    }
    return new EveryKind([...all, new PolicyRules(undefined)], suffix);
  }

  /** The draw of the value that matches, under each version of the kind that has one. */
  *draws(
    name: string,
    value: Value,
    draws: Draws,
    isMatch: (token: Token) => boolean,
  ): Generator<{ readonly kind: Kind; readonly drawn: Drawn }> {
    for (const kind of this.#kindsOf(name)) {
      // What this version of the kind refuses, it did not draw.
      if ('reason' in kind.accept(value)) continue;
      const draw = (from: number) => kind.drawToken(value, this.#suffix, draws, from);
      let drawn = draw(0);
      while (drawn !== undefined && !isMatch(drawn.token)) drawn = draw(drawn.draw + 1);
      if (drawn !== undefined) yield { kind, drawn };
    }
  }

  #kindsOf(name: string): Kind[] {
    const known = this.#byName.get(name) ?? [];
    this.#byName.set(name, known);
    return known;
  }
}
