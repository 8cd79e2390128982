import { MAX_WRONG, nearest, type PathNode } from '#paths';

/** Longer names are no slips. Others can be values: a map from e-mail addresses, for example. */
const NAME = /^[A-Za-z_][\w -]{0,63}$/;
/** Paths that are reported, each once. */
const MAX_REPORTED = 100;
/** Names that are remembered, so that each is compared once. */
const MAX_KNOWN = 1_000;
/** Names of the policy that a name is compared with. */
const MAX_CANDIDATES = 50;
/** A caller may send a million new names a second. A letter takes some 60 ns. */
const LETTERS_PER_S = 100_000;

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
  readonly #known = new Map<PathNode, Set<string>>();
  #knownCount = 0;
  #letters = LETTERS_PER_S;
  #atMs = -Infinity;

  /**
   * @param node of the policy that does not have the name
   * @param nowMs of a clock that is never set back
   */
  find(node: PathNode, name: string, nowMs: number): NearName | undefined {
    if (this.#known.get(node)?.has(name) || this.#reported.size === MAX_REPORTED) return undefined;
    if (!NAME.test(name) || !this.#hasLetters(nowMs)) return undefined;
    const candidates = [...node.names.keys()].filter((other) => isSimilar(name, other));
    candidates.length = Math.min(candidates.length, MAX_CANDIDATES);
    this.#letters -= node.names.size + candidates.length * name.length ** 2;
    // A copy, because a part of the request's text would keep all of it in memory.
    const found = Buffer.from(name).toString();
    this.#remember(node, found);
    const meant = nearest(found, candidates);
    const path = meant === undefined ? undefined : node.names.get(meant)!.path;
    if (path === undefined || this.#reported.has(path)) return undefined;
    this.#reported.add(path);
    return { path, found };
  }

  #remember(node: PathNode, name: string): void {
    if (this.#knownCount === MAX_KNOWN) {
      this.#known.clear();
      this.#knownCount = 0;
    }
    const known = this.#known.get(node) ?? new Set();
    this.#known.set(node, known.add(name));
    this.#knownCount++;
  }

  #hasLetters(nowMs: number): boolean {
    const earned = (Math.max(0, nowMs - this.#atMs) / 1000) * LETTERS_PER_S;
    this.#letters = Math.min(LETTERS_PER_S, this.#letters + earned);
    this.#atMs = Math.max(nowMs, this.#atMs);
    return this.#letters > 0;
  }
}

/** Most slips leave the first letter or the last one, and all leave the length nearly as it is. */
function isSimilar(name: string, other: string): boolean {
  const isSame = (at: number) => name.at(at)!.toLowerCase() === other.at(at)?.toLowerCase();
  return Math.abs(name.length - other.length) <= MAX_WRONG && (isSame(0) || isSame(-1));
}
