import { scopeOf } from '../../crypto/scope.ts';
import type { Policy } from '../../policy/policy.ts';
import { PolicyRules } from '../../policy/rules.ts';
import { DEFAULT_KIND, type Token, type TokenTerms, type Value } from '../../types.ts';
import type { Visibility } from '../detokenizer.ts';
import type { ValueTerms } from '../tokenizer.ts';
import { splitHint, splitKind, type View, withKind } from './messages.ts';

/** Calls under way name the policy of the time when they came. Policies change seldom. */
const KEPT_POLICIES = 8;

/** The policies in a vault thread, which decide how values are drawn and what leaves the thread. */
export class ThreadRules {
  readonly #byVersion = new Map<number, PolicyRules>([[0, new PolicyRules(undefined)]]);

  add(policy: Policy): void {
    this.#byVersion.set(policy.version, new PolicyRules(policy));
    const [, oldest] = this.#byVersion.keys();
    if (this.#byVersion.size > KEPT_POLICIES) this.#byVersion.delete(oldest!);
  }

  /** Splits texts that come with their kind. */
  kinded(
    texts: readonly string[],
    terms: TokenTerms,
    { policy, space }: View,
  ): [values: Value[], terms: ValueTerms[]] {
    const rules = this.#of(policy);
    const byKind = new Map<string, ValueTerms>();
    const values: Value[] = [];
    const all = texts.map((text) => {
      const { kind: name, value } = splitKind(text);
      values.push(value!);
      let own = byKind.get(name);
      if (own === undefined) {
        const kind = rules.kind(name);
        own = { ...rules.termsOf(kind, terms), kind, scope: scopeOf(name, space) };
        byKind.set(name, own);
      }
      return own;
    });
    return [values, all];
  }

  /** Splits tokens that come with a hint. */
  visible(texts: readonly Token[], view: View): [tokens: Token[], visibility: Visibility] {
    const hinted = texts.map(splitHint);
    const isScoped = (index: number) => hinted[index]!.isScoped;
    return [hinted.map(({ token }) => token), { ...this.#visibility(view), isScoped }];
  }

  #visibility(view: View): Omit<Visibility, 'isScoped'> {
    const rules = this.#of(view.policy);
    return {
      space: view.space,
      show: ({ value, scope }) => {
        const kind = scope?.kind ?? DEFAULT_KIND;
        switch (rules.right(view.line, kind)) {
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

  #of(version: number): PolicyRules {
    return this.#byVersion.get(version)!;
  }
}
