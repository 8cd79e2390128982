import type { TokenOptions } from '../../client-settings.ts';
import { scopeOf } from '../../crypto/scope.ts';
import { TooSlow } from '../../detect/pattern.ts';
import { NO_POLICY, type Policy, rightIn } from '../../policy/policy.ts';
import { type Kind, PolicyRules } from '../../policy/rules.ts';
import { DEFAULT_KIND, type Value } from '../../types.ts';
import type { Visibility } from '../detokenizer.ts';
import type { ValueOptions } from '../tokenizer.ts';
import { hiddenKind, kindMark, kindPrefix, markedKind, SCOPED, type View } from './messages.ts';

/** Calls under way name the policy of the time when they came. Policies change seldom. */
const KEPT_POLICIES = 8;

/** The part of a value that leaves the thread. */
type Show = (value: Value) => Value;

/** A policy, with what it says of all kinds. */
interface Ready {
  readonly rules: PolicyRules;
  /** By mark, for each space and terms of clients. */
  readonly terms: Map<string, ReadonlyMap<number, ValueOptions>>;
  /** By kind, for each line of the rights. */
  readonly shows: Map<string | null, Map<string, Show>>;
}

/** The policies in a vault thread, which decide how values are drawn and what leaves the thread. */
export class ThreadRules {
  /** By tag: a failover can give the number of a version to another document. */
  readonly #byTag = new Map<string, Ready>([[NO_POLICY.tag, readyOf(NO_POLICY)]]);

  add(policy: Policy): void {
    // One that comes back is the newest again.
    this.#byTag.delete(policy.tag);
    this.#byTag.set(policy.tag, readyOf(policy));
    const [, oldest] = this.#byTag.keys();
    if (this.#byTag.size > KEPT_POLICIES) this.#byTag.delete(oldest!);
  }

  /** The value that the kind of each text accepts, by its mark; null: it refuses the text. */
  accepted(texts: readonly string[], { policy, marks }: View): (Value | null)[] {
    const { rules } = this.#of(policy);
    return texts.map((text, i) => {
      const accepted = markedKind(marks, i, rules).accept(text);
      return 'value' in accepted ? accepted.value : null;
    });
  }

  /** What the detectors of the policy find in each text: JSON of FindIn; null: TooSlow. */
  found(texts: readonly string[], { policy }: View): (Value | null)[] {
    const { rules } = this.#of(policy);
    return texts.map((text) => {
      try {
        return JSON.stringify(rules.findIn(text)) as Value;
      } catch (error) {
        if (error instanceof TooSlow) return null;
        throw error;
      }
    });
  }

  /** The terms of each value, by its mark. */
  termsOf(terms: TokenOptions, { policy, space, marks }: View): ValueOptions[] {
    const ofKinds = this.#termsOfKinds(this.#of(policy), terms, space);
    const all: ValueOptions[] = [];
    for (let i = 0; i < marks.length; i++) all.push(ofKinds.get(marks.charCodeAt(i))!);
    return all;
  }

  visibility({ policy, entry: line, space, marks }: View): Visibility {
    const { rules, shows } = this.#of(policy);
    const ofKinds = entryOf(shows, line, () => new Map<string, Show>());
    return {
      space,
      isScoped: (index) => marks[index] === SCOPED,
      show: ({ value, scope }) => {
        const kind = scope?.kind ?? DEFAULT_KIND;
        return entryOf(ofKinds, kind, () => showOf(rules, line, kind))(value);
      },
    };
  }

  #termsOfKinds({ rules, terms }: Ready, own: TokenOptions, space: string) {
    const key = `${own.token_mode} ${own.time_to_live_s} ${space}`;
    const termsFor = (kind: Kind): ValueOptions => {
      const scope = scopeOf(kind.settings.name, space);
      return { ...rules.termsOf(kind, own), kind, scope };
    };
    const ofKinds = () =>
      new Map(rules.kinds.map((kind) => [kindMark(kind, rules).charCodeAt(0), termsFor(kind)]));
    return entryOf(terms, key, ofKinds);
  }

  #of(tag: string): Ready {
    return this.#byTag.get(tag)!;
  }
}

function readyOf(policy: Policy): Ready {
  return { rules: new PolicyRules(policy), terms: new Map(), shows: new Map() };
}

function showOf(rules: PolicyRules, line: string | null, kind: string): Show {
  const prefix = kindPrefix(kind, rules);
  switch (rightIn(rules.policy, line, kind)) {
    case 'full':
      return (value) => (prefix + value) as Value;
    case 'masked':
      return (value) => (prefix + rules.mask(kind, value)) as Value;
    case 'none':
      return () => hiddenKind(kind);
  }
}

/** The entry of the key, which is made when there is none. */
function entryOf<Key, Entry>(map: Map<Key, Entry>, key: Key, make: () => Entry): Entry {
  let entry = map.get(key);
  if (entry === undefined) {
    entry = make();
    map.set(key, entry);
  }
  return entry;
}
