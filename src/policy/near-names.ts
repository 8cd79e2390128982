import { nearest, type PathNode } from '#bulk';

/** Longer names are no slips. Others can be values: a map from e-mail addresses, for example. */
const NAME = /^[A-Za-z_][\w -]{0,63}$/;
/** Paths that are reported, each once. */
const MAX_REPORTED = 100;
/** Names that are remembered, so that each is compared once. */
const MAX_KNOWN = 1_000;
/** A caller may send a million new names a second. A comparison of two letters takes some 3 ns. */
const LETTERS_PER_S = 1_000_000;

/** A field of the policy that a request has under another name. */
export interface NearName {
  /** The path of the policy. */
  readonly path: string;
  /** The name in the request. */
  readonly found: string;
}

/**
 * Finds the names of requests that are nearly those of a policy: other capitals, or one or two
 * letters that differ. Says each path once, and takes a bounded time, whatever the names are.
 */
export class NearNames {
  readonly #reported = new Set<string>();
  #known = new Map<PathNode, Set<string>>();
  #knownCount = 0;
  #letters = LETTERS_PER_S;
  #atMs = -Infinity;

  /**
   * @param node of the policy that does not have the name
   * @param nowMs of a clock that is never set back
   */
  find(node: PathNode, name: string, nowMs: number): NearName | undefined {
    let known = this.#known.get(node);
    if (known?.has(name) || this.#reported.size === MAX_REPORTED) return undefined;
    if (!NAME.test(name) || !this.#canCompare(node, name, nowMs)) return undefined;
    if (this.#knownCount === MAX_KNOWN) {
      this.#known = new Map();
      this.#knownCount = 0;
      known = undefined;
    }
    // A copy, because a part of the request's text would keep all of it in memory.
    const found = Buffer.from(name).toString();
    this.#known.set(node, (known ?? new Set()).add(found));
    this.#knownCount++;
    const meant = nearest(found, [...node.names.keys()]);
    const path = meant === undefined ? undefined : node.names.get(meant)!.path;
    if (path === undefined || this.#reported.has(path)) return undefined;
    this.#reported.add(path);
    return { path, found };
  }

  /** Takes the letters to compare from those of the last second; one comparison may take more. */
  #canCompare(node: PathNode, name: string, nowMs: number): boolean {
    const earned = ((nowMs - this.#atMs) / 1000) * LETTERS_PER_S;
    this.#letters = Math.min(LETTERS_PER_S, this.#letters + earned);
    this.#atMs = nowMs;
    if (this.#letters <= 0) return false;
    for (const other of node.names.keys()) this.#letters -= name.length * other.length;
    return true;
  }
}
