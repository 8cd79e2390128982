import { addPath, newTree, type PathNode } from '#paths';
import type { Client, TokenOptions } from '../client-settings.ts';
import { type FindIn, finderOf } from '../detect/found.ts';
import { type Kind, kindOf } from '../shape/kind.ts';
import { isTextKind } from '../shape/kind-settings.ts';
import { HIDDEN } from '../shape/mask.ts';
import { DEFAULT_KIND, DEFAULT_SPACE } from '../types.ts';
import { NearNames } from './near-names.ts';
import { entryOf, type Policy, seesAll } from './policy.ts';

export type { Kind, PathNode };

/** The paths in each record of a list. */
export function inEach(tree: PathNode): PathNode {
  return { ...newTree(), every: tree };
}

/** A policy ready for use. */
export class PolicyRules {
  readonly policy: Policy;
  /** The paths of its fields; undefined: it names none. */
  readonly tree: PathNode | undefined;
  readonly nearNames = new NearNames();
  /** Kinds whose tokens can be found in running text. */
  readonly textKinds: readonly Kind[];
  /** Whether a token can be a string without the suffix. */
  readonly hasBareTokens: boolean;
  /** In an order that is the same wherever the policy is. */
  readonly kinds: readonly Kind[];
  readonly byName: ReadonlyMap<string, Kind>;
  readonly #byPath = new Map<string, Kind>();
  #findIn: FindIn | undefined;

  /** @param hasImports whether tokens without the suffix were imported */
  constructor(policy: Policy, hasImports = false) {
    this.policy = policy;
    this.kinds = policy.kinds.map(kindOf);
    this.byName = new Map(this.kinds.map((kind) => [kind.settings.name, kind]));
    this.hasBareTokens = hasImports || policy.kinds.some(({ suffix }) => !suffix);
    this.textKinds = this.kinds.filter(({ settings }) => isTextKind(settings));
    this.#byPath.set('', this.kind(DEFAULT_KIND));
    if (policy.fields === undefined) return;
    this.tree = newTree();
    for (const { path, kind } of policy.fields) {
      const node = addPath(this.tree, path, 'fields');
      this.#byPath.set(node.path, this.kind(kind));
    }
  }

  /** The kind of a path: see PathNode. Strings elsewhere have the path ''. */
  kindAt(path: string): Kind {
    return this.#byPath.get(path)!;
  }

  /** @throws RangeError for a kind that the policy does not have */
  kind(name: string): Kind {
    const kind = this.byName.get(name);
    if (kind === undefined) throw new RangeError(`the policy has no kind ${name}`);
    return kind;
  }

  /** How tokens of this kind are made for a client. */
  termsOf({ settings }: Kind, client: TokenOptions): TokenOptions {
    return {
      token_mode: settings.tokens ?? client.token_mode,
      time_to_live_s: settings.time_to_live_s ?? client.time_to_live_s,
    };
  }

  /** What the detectors find in a text. Compiled when it is first needed. */
  get findIn(): FindIn {
    this.#findIn ??= finderOf(this.policy.detect);
    return this.#findIn;
  }

  mask(kind: string, value: string): string {
    return this.byName.get(kind)?.mask(value) ?? HIDDEN;
  }
}

/** How a caller sees the vault: by a policy, and in a space. */
export class Viewer {
  readonly rules: PolicyRules;
  /** The line of the client in the rights of the policy; null: it sees everything. */
  readonly entry: string | null;
  /** '': the default space. */
  readonly space: string;

  constructor(rules: PolicyRules, line: string | null, space: string) {
    this.rules = rules;
    this.entry = line;
    this.space = space;
  }

  static of(rules: PolicyRules, client: Client): Viewer {
    return new Viewer(rules, entryOf(rules.policy, client), client.space);
  }

  /** Whether there is one kind, one space and one right. */
  get isPlain(): boolean {
    return this.rules.policy.version === 0 && this.space === DEFAULT_SPACE;
  }

  get seesAll(): boolean {
    return seesAll(this.rules.policy, this.entry);
  }
}
