import { addPath, newTree, type PathNode } from '#paths';
import type { Client, TokenOptions } from '../client-settings.ts';
import { type Kind, kindOf } from '../shape/kind.ts';
import { defaultKind, type KindSettings } from '../shape/kind-settings.ts';
import { DEFAULT_KIND } from '../types.ts';
import { NearNames } from './near-names.ts';
import {
  type Elsewhere,
  entryOf,
  type Policy,
  type PolicyField,
  type Right,
  rightIn,
  seesAll,
} from './policy.ts';

/** What a mask shows of a kind that the policy does not have any more. */
const HIDDEN = '****';

export type { Kind, PathNode };

/** The paths in each record of a list. */
export function inEach(tree: PathNode): PathNode {
  return { ...newTree(), every: tree };
}

/** A policy ready for use. */
export class PolicyRules {
  /** 0: there is no policy. */
  readonly version: number;
  /** undefined: there is no policy. */
  readonly tag: string | undefined;
  /** Empty: it names none. */
  readonly fields: readonly PolicyField[];
  /** See Policy. */
  readonly elsewhere: Elsewhere;
  /** The paths of its fields; undefined: it names none. */
  readonly tree: PathNode | undefined;
  readonly nearNames = new NearNames();
  /** Kinds whose tokens can be found in running text. */
  readonly textKinds: readonly Kind[];
  /** Whether a token can be a string without the suffix. */
  readonly hasBareTokens: boolean;
  /** In an order that is the same wherever the policy is. */
  readonly kinds: readonly Kind[];
  readonly #byPath = new Map<string, Kind>();
  readonly #byName: ReadonlyMap<string, Kind>;
  readonly #rights: Policy['rights'];

  /** @param hasImports whether tokens without the suffix were imported */
  constructor(policy: Policy | undefined, hasImports = false) {
    this.version = policy?.version ?? 0;
    this.tag = policy?.tag;
    this.fields = policy?.fields ?? [];
    this.elsewhere = policy?.elsewhere ?? 'tokenize';
    this.#rights = policy?.rights;
    const kinds = policy?.kinds ?? [defaultKind(DEFAULT_KIND, DEFAULT_KIND)];
    this.kinds = kinds.map(kindOf);
    this.#byName = new Map(this.kinds.map((kind) => [kind.settings.name, kind]));
    this.hasBareTokens = hasImports || kinds.some(({ suffix }) => !suffix);
    this.textKinds = this.kinds.filter(
      ({ settings: { shape, suffix } }) => shape === 'word' && suffix,
    );
    this.#byPath.set('', this.kind(DEFAULT_KIND));
    if (policy?.fields === undefined) return;
    this.tree = newTree();
    for (const { path, kind } of policy.fields) {
      const node = addPath(this.tree, path, 'fields').at(-1)!;
      this.#byPath.set(node.path, this.kind(kind));
    }
  }

  /** The kind of a path: see PathNode. Strings elsewhere have the path ''. */
  kindAt(path: string): Kind {
    return this.#byPath.get(path)!;
  }

  has(kind: string): boolean {
    return this.#byName.has(kind);
  }

  /** @throws RangeError for a kind that the policy does not have */
  kind(name: string): Kind {
    const kind = this.#byName.get(name);
    if (kind === undefined) throw new RangeError(`the policy has no kind ${name}`);
    return kind;
  }

  /** undefined: the policy does not have the kind. */
  settingsOf(kind: string): KindSettings | undefined {
    return this.#byName.get(kind)?.settings;
  }

  /** All kinds whose tokens can be found by value. */
  get deterministicKinds(): readonly Kind[] {
    return this.kinds.filter(({ settings }) => settings.tokens !== 'random');
  }

  /** How tokens of this kind are made for a client. */
  termsOf({ settings }: Kind, client: TokenOptions): TokenOptions {
    return {
      token_mode: settings.tokens ?? client.token_mode,
      time_to_live_s: settings.time_to_live_s ?? client.time_to_live_s,
    };
  }

  /** See `entryOf` of policy.ts. */
  entryOf(client: Client): string | null {
    return entryOf(this.#rights, client);
  }

  /** @param line from `entryOf` */
  right(line: string | null, kind: string): Right {
    return rightIn(this.#rights, line, kind);
  }

  /** @param line from `entryOf` */
  seesAll(line: string | null): boolean {
    return seesAll(this.#rights, line);
  }

  mask(kind: string, value: string): string {
    return this.#byName.get(kind)?.mask(value) ?? HIDDEN;
  }
}
