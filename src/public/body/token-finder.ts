import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Stretch } from '../../detect/detectors.ts';
import type { Kind } from '../../policy/rules.ts';

/** A possible token. */
export interface Candidate {
  /** Where it begins in the text, in UTF-16 units. */
  readonly from: number;
  /** As the vault would know it. */
  readonly token: string;
  /** The kind of word tokens that has its form; undefined: it may be of another kind. */
  readonly kind: Kind | undefined;
}

/** A place in a text that ends like a token, and begins where its longest candidate does. */
export interface TokenPlace extends Stretch {
  /** In the order in which they are looked up; undefined: there are no more. */
  readonly candidate: (turn: number) => Candidate | undefined;
}

const LETTERS = /[A-Za-z]/;
/** Characters of tokens that have no space. */
const RUN_CHARACTERS = /[\w.@+-]/;
const isLetter = tableOf(LETTERS);
const isInRun = tableOf(RUN_CHARACTERS);
/** Longer tokens are not looked for in texts. */
const MAX_STEM = 256;
/**
 * A word of so many letters is not the end of another token by chance, so it is looked up before
 * the longer token. A word glued to other letters then costs no guess.
 */
const SURE_LETTERS = 8;

/**
 * Finds tokens in running text: next to quotes, brackets and other words; in capitals, as at the
 * beginning of a sentence; and with the underscore escaped, as in Markdown. Letters directly before
 * a token may belong to it or not, so a place can have several candidates.
 */
export class TokenFinder {
  readonly #ending: string;
  readonly #pattern: RegExp;
  readonly #byLength: ReadonlyMap<number, Kind>;
  /** The longest first. */
  readonly #lengths: readonly number[];

  /** @param kinds kinds of word tokens */
  constructor(suffix: string, kinds: readonly Kind[]) {
    this.#ending = `_${suffix}`;
    this.#pattern = new RegExp(`\\\\?_${suffix}`, 'gi');
    this.#byLength = new Map(kinds.map((kind) => [kind.settings.length, kind]));
    this.#lengths = [...this.#byLength.keys()].sort((a, b) => b - a);
  }

  /** @param max when there are more places, it stops looking */
  find(text: string, max: number): TokenPlace[] {
    const places: TokenPlace[] = [];
    let from = 0;
    for (const { 0: ending, index } of text.matchAll(this.#pattern)) {
      const place = this.#placeAt(text, from, index, index + ending.length);
      if (place === undefined) continue;
      from = place.to;
      places.push(place);
      if (places.length > max) break;
    }
    return places;
  }

  #placeAt(text: string, after: number, stemEnd: number, to: number): TokenPlace | undefined {
    const run = runStart(text, after, stemEnd, isInRun);
    const letters = stemEnd - runStart(text, after, stemEnd, isLetter);
    const lengths = this.#lengths.filter((length) => length <= letters);
    const isWhole = run < stemEnd && stemEnd - run < MAX_STEM && !lengths.includes(stemEnd - run);
    if (lengths.length === 0 && !isWhole) return undefined;
    const from = isWhole ? run : stemEnd - lengths[0]!;
    const sure = lengths.filter((length) => length >= SURE_LETTERS).length;
    if (isWhole) lengths.splice(sure, 0, stemEnd - run);
    const candidate = (turn: number): Candidate | undefined => {
      const length = lengths[turn];
      if (length === undefined) return undefined;
      const kind = length <= letters ? this.#byLength.get(length) : undefined;
      const stem = text.slice(stemEnd - length, stemEnd);
      const token = (kind ? stem.toLowerCase() : stem) + this.#ending;
      return { from: stemEnd - length, token, kind };
    };
    return { from, to, candidate };
  }
}

/** What a request restores; all other tokens stay. */
export interface Named {
  /** @param token as the vault would know it */
  has(token: string): boolean;
}

/** To look at the candidates of so many places takes 10 ms at most. */
const PLACES_A_TURN = 500;

/** The places with those of their candidates that are named. A place can have none. */
export async function placesOfNamed(
  places: readonly TokenPlace[],
  named: Named,
): Promise<readonly TokenPlace[]> {
  const narrowed: TokenPlace[] = [];
  for (const { from, to, candidate } of places) {
    if (narrowed.length % PLACES_A_TURN === PLACES_A_TURN - 1) await nextTurn();
    const candidates: Candidate[] = [];
    for (let turn = 0, one = candidate(0); one !== undefined; one = candidate(++turn)) {
      if (named.has(one.token)) candidates.push(one);
    }
    narrowed.push({ from, to, candidate: (turn) => candidates[turn] });
  }
  return narrowed;
}

/** Where the end of a text begins that may be a part of a token. */
export function heldFrom(text: string, from: number, suffix: string): number {
  const escaped = ESCAPED_ENDING.exec(text.slice(-suffix.length - ESCAPE.length))?.[0] ?? '';
  const stemEnd = text.length - escaped.length;
  const start = runStart(text, from, stemEnd, isInRun);
  // Without a stem before it, the underscore may itself be the beginning of a token.
  return start === stemEnd ? runStart(text, from, text.length, isInRun) : start;
}

const ESCAPE = '\\_';
const ESCAPED_ENDING = /\\(?:_[A-Za-z0-9]*)?$/;

/** Where the run of such characters before `end` begins. */
function runStart(text: string, from: number, end: number, is: Uint8Array): number {
  let start = end;
  const first = Math.max(from, end - MAX_STEM);
  while (start > first && is[text.charCodeAt(start - 1)] === 1) start--;
  return start;
}

/** 1 for each ASCII code of such a character. */
function tableOf(characters: RegExp): Uint8Array {
  return Uint8Array.from({ length: 128 }, (_, code) =>
    Number(characters.test(String.fromCharCode(code))),
  );
}
