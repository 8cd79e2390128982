import { addPath, newTree, type PathNode } from '#bulk';
import { DEFAULT_KIND } from '../crypto/scope.ts';
import { defaultKind, type Kind, kindOf } from '../shape/kind.ts';
import type { Client, TokenTerms } from '../types.ts';
import type { Policy, Right } from './policy.ts';

/** A kind or client that no line names. */
const OTHERS = '*';

/** What a mask shows of a kind that the policy does not have any more. */
const HIDDEN = '****';

/** A policy ready for use. */
export class PolicyRules {
  /** 0: there is no policy. */
  readonly version: number;
  /** The paths of its fields; undefined: it names none. */
  readonly tree: PathNode | undefined;
  readonly #byPath = new Map<string, Kind>();
  readonly #kinds: ReadonlyMap<string, Kind>;
  readonly #rights: Policy['rights'];

  constructor(policy: Policy | undefined) {
    this.version = policy?.version ?? 0;
    this.#rights = policy?.rights;
    const kinds = policy?.kinds ?? [defaultKind(DEFAULT_KIND, DEFAULT_KIND)];
    this.#kinds = new Map(kinds.map((one) => [one.name, kindOf(one)]));
    if (policy?.fields === undefined) return;
    this.tree = newTree();
    for (const { path, kind } of policy.fields) {
      const node = addPath(this.tree, path, 'fields').at(-1)!;
      this.#byPath.set(node.path, this.kind(kind));
    }
  }

  /** The kind of a path: see PathNode. */
  kindAt(path: string): Kind {
    return this.#byPath.get(path)!;
  }

  /** @throws RangeError for a kind that the policy does not have */
  kind(name: string): Kind {
    const kind = this.#kinds.get(name);
    if (kind === undefined) throw new RangeError(`the policy has no kind ${name}`);
    return kind;
  }

  /** Whether a token can be a string without the suffix. */
  get hasBareTokens(): boolean {
    return [...this.#kinds.values()].some(({ settings }) => !settings.suffix);
  }

  /** How tokens of this kind are made for a client. */
  termsOf({ settings }: Kind, client: TokenTerms): TokenTerms {
    return {
      token_mode: settings.tokens ?? client.token_mode,
      time_to_live_s: settings.time_to_live_s ?? client.time_to_live_s,
    };
  }

  /** The line of the rights that counts for a client; null: it sees everything. */
  lineOf({ client_id: clientId, name }: Client): string | null {
    if (this.#rights === undefined) return null;
    return [clientId, name].find((line) => Object.hasOwn(this.#rights!, line)) ?? OTHERS;
  }

  /** @param line from `lineOf` */
  right(line: string | null, kind: string): Right {
    if (line === null) return 'full';
    const ofClient = this.#rights?.[line];
    if (ofClient === undefined) return 'none';
    return ofOwn(ofClient, kind) ?? ofOwn(ofClient, OTHERS) ?? 'none';
  }

  mask(kind: string, value: string): string {
    return this.#kinds.get(kind)?.mask(value) ?? HIDDEN;
  }
}

function ofOwn(line: Readonly<Record<string, Right>>, kind: string): Right | undefined {
  return Object.hasOwn(line, kind) ? line[kind] : undefined;
}
