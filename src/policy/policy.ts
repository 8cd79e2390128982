import type { DetectSettings } from '../detect/found.ts';
import { defaultKind, type KindSettings } from '../shape/kind-settings.ts';
import { DEFAULT_KIND } from '../types.ts';

/** The rights of a client to the values of a kind. */
export const RIGHTS = ['full', 'masked', 'none'] as const;
export type Right = (typeof RIGHTS)[number];

/** A path of `data`, in the path language of the bulk commands, and the kind of its strings. */
export interface PolicyField {
  readonly path: string;
  readonly kind: string;
}

/** The fate of strings at paths that `fields` does not name, in words that follow `they`. */
export const ELSEWHERE = {
  pass: 'go through unchanged, in clear',
  refuse: 'make the request fail',
  tokenize: 'are tokenized, as text',
} as const;
export type Elsewhere = keyof typeof ELSEWHERE;

/** By the name or the id of a client, then by kind. */
export type Rights = Readonly<Record<string, Readonly<Record<string, Right>>>>;

/**
 * A policy as the service uses it: checked, with all defaults filled in. Plain data, because it
 * goes to the vault threads.
 */
export interface Policy {
  /** 1, 2, 3 and so on: the row in standin.policies. 0: there is no policy. */
  readonly version: number;
  /** Of the document, byte for byte: an entity tag (RFC 9110 section 8.8.3). '': there is none. */
  readonly tag: string;
  /** First one of each shape, with its name and default options, then those of the document. */
  readonly kinds: readonly KindSettings[];
  /** undefined: every string of `data` is a `text`, as without a policy. */
  readonly fields: readonly PolicyField[] | undefined;
  /** `tokenize` without fields. */
  readonly elsewhere: Elsewhere;
  /**
   * `*` stands for all others, in both places. A client or kind that is in none of the lines:
   * `none`. undefined: every client sees everything.
   */
  readonly rights: Rights | undefined;
  /** How values are found in texts. Empty: the caller says where they are. */
  readonly detect: readonly DetectSettings[];
}

/** Every vault's until one is applied. */
export const NO_POLICY: Policy = {
  ...{ version: 0, tag: '', kinds: [defaultKind(DEFAULT_KIND, DEFAULT_KIND)] },
  ...{ fields: undefined, elsewhere: 'tokenize', rights: undefined, detect: [] },
};

/** A policy before it is a version. */
export type DeclaredPolicy = Omit<Policy, 'version' | 'tag'>;

/** All other clients, and all other kinds. */
export const OTHERS = '*';

type Rules = Pick<Policy, 'rights'>;
type Named = { readonly client_id: string; readonly name: string };

/** The line that counts for a client: that of its id comes first. null: it sees everything. */
export function entryOf({ rights }: Rules, { client_id: clientId, name }: Named) {
  if (rights === undefined) return null;
  if (Object.hasOwn(rights, clientId)) return clientId;
  return Object.hasOwn(rights, name) ? name : OTHERS;
}

/** @param line from `entryOf` */
export function rightIn({ rights }: Rules, line: string | null, kind: string): Right {
  if (line === null) return 'full';
  const ofKinds = rights !== undefined && Object.hasOwn(rights, line) ? rights[line]! : {};
  if (Object.hasOwn(ofKinds, kind)) return ofKinds[kind]!;
  return Object.hasOwn(ofKinds, OTHERS) ? ofKinds[OTHERS]! : 'none';
}

/** Whether a client sees every value, whatever its kind. */
export function seesAll({ rights }: Rules, line: string | null): boolean {
  if (rightIn({ rights }, line, OTHERS) !== 'full') return false;
  return line === null || Object.values(rights![line]!).every((right) => right === 'full');
}

/** The right of a client to the values of a kind. */
export function rightOf(rules: Rules, client: Named, kind: string): Right {
  return rightIn(rules, entryOf(rules, client), kind);
}

/** The kinds that new tokens have, and `text`, which all tokens from before have. */
export function kindsInUse({ kinds, fields = [], detect }: DeclaredPolicy): KindSettings[] {
  const named = new Set(['text', ...[...fields, ...detect].map(({ kind }) => kind)]);
  return kinds.filter(({ name, shape }) => name !== shape || named.has(name));
}
