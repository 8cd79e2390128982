import type { KindSettings } from '../shape/kind-settings.ts';

/** What a client sees of the values of a kind. */
export const RIGHTS = ['full', 'masked', 'none'] as const;
export type Right = (typeof RIGHTS)[number];

/** A path of `data`, in the path language of the bulk commands, and the kind of its strings. */
export interface PolicyField {
  readonly path: string;
  readonly kind: string;
}

/**
 * A policy as the service uses it: checked, with all defaults filled in. Plain data, because it
 * goes to the vault threads.
 */
export interface Policy {
  /** 1, 2, 3 and so on: the row in standin.policies. */
  readonly version: number;
  readonly kinds: readonly KindSettings[];
  /** undefined: every string of `data` is a `text`, as without a policy. */
  readonly fields: readonly PolicyField[] | undefined;
  /**
   * By the name or the id of a client, then by kind. `*` stands for all others, in both places. A
   * client or kind that is in none of the lines: `none`. undefined: every client sees everything.
   */
  readonly rights: Readonly<Record<string, Readonly<Record<string, Right>>>> | undefined;
}
