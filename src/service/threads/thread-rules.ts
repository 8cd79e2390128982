import { scopeOf } from '../../crypto/scope.ts';
import type { Policy } from '../../policy/policy.ts';
import { PolicyRules } from '../../policy/rules.ts';
import { DEFAULT_KIND, type TokenTerms, type Value } from '../../types.ts';
import type { Visibility } from '../detokenizer.ts';
import type { ValueTerms } from '../tokenizer.ts';
import { type MarkedView, SCOPED, withKind } from './messages.ts';

/** Calls under way name the policy of the time when they came. Policies change seldom. */
const KEPT_POLICIES = 8;

/** A policy, with the terms of all kinds for each space and terms of clients. */
interface Ready {
  readonly rules: PolicyRules;
  readonly terms: Map<string, readonly ValueTerms[]>;
}

/** The policies in a vault thread, which decide how values are drawn and what leaves the thread. */
export class ThreadRules {
  readonly #byVersion = new Map<number, Ready>([[0, readyOf(undefined)]]);

  add(policy: Policy): void {
    this.#byVersion.set(policy.version, readyOf(policy));
    const [, oldest] = this.#byVersion.keys();
    if (this.#byVersion.size > KEPT_POLICIES) this.#byVersion.delete(oldest!);
  }

  /** The terms of each value, by its mark. */
  termsOf(terms: TokenTerms, { policy, space, marks }: MarkedView): ValueTerms[] {
    const ofKinds = this.#termsOfKinds(this.#of(policy), terms, space);
    const all: ValueTerms[] = [];
    for (let i = 0; i < marks.length; i++) all.push(ofKinds[marks.charCodeAt(i)]!);
    return all;
  }

  visibility({ policy, line, space, marks }: MarkedView): Visibility {
    const { rules } = this.#of(policy);
    return {
      space,
      isScoped: (index) => marks[index] === SCOPED,
      show: ({ value, scope }) => {
        const kind = scope?.kind ?? DEFAULT_KIND;
        switch (rules.right(line, kind)) {
          case 'full':
            return withKind(kind, value);
          case 'masked':
            return withKind(kind, rules.mask(kind, value));
          case 'none':
            return kind as Value;
        }
      },
    };
  }

  #termsOfKinds({ rules, terms }: Ready, own: TokenTerms, space: string): readonly ValueTerms[] {
    const key = `${own.token_mode} ${own.time_to_live_s} ${space}`;
    let ofKinds = terms.get(key);
    if (ofKinds === undefined) {
      ofKinds = rules.kinds.map((kind) => {
        const scope = scopeOf(kind.settings.name, space);
        return { ...rules.termsOf(kind, own), kind, scope };
      });
      terms.set(key, ofKinds);
    }
    return ofKinds;
  }

  #of(version: number): Ready {
    return this.#byVersion.get(version)!;
  }
}

function readyOf(policy: Policy | undefined): Ready {
  return { rules: new PolicyRules(policy), terms: new Map() };
}
