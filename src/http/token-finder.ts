import type { Kind } from '../policy/rules.ts';

/** What may be a token. */
export interface Candidate {
  /** Where it begins in the text, in UTF-16 units. */
  readonly start: number;
  /** As the vault would know it. */
  readonly token: string;
  /** The kind of word tokens that has its form; undefined: it may be of another kind. */
  readonly kind: Kind | undefined;
}

/** A place in a text that ends like a token. */
export interface Place {
  readonly end: number;
  /** The longest first. */
  readonly candidates: readonly Candidate[];
}

const LETTERS = /[A-Za-z]/;
/** Characters of tokens that have no space. */
const RUN_CHARACTERS = /[\w.@+-]/;
const isLetter = tableOf(LETTERS);
const isInRun = tableOf(RUN_CHARACTERS);
/** Longer tokens are not looked for in texts. */
const MAX_STEM = 256;

/**
 * Finds tokens in running text: next to quotes, brackets and other words; in capitals, as at the
 * beginning of a sentence; and with the underscore escaped, as in Markdown. Letters directly before
 * a token may belong to it or not, so a place can have several candidates.
 */
export class TokenFinder {
  readonly #ending: string;
  readonly #pattern: RegExp;
  readonly #kinds: readonly Kind[];

  /** @param kinds kinds of word tokens */
  constructor(suffix: string, kinds: readonly Kind[]) {
    this.#ending = `_${suffix}`;
    this.#pattern = new RegExp(`\\\\?_${suffix}`, 'gi');
    const byLength = new Map(kinds.map((kind) => [kind.settings.length, kind]));
    this.#kinds = [...byLength.values()].sort((a, b) => b.settings.length - a.settings.length);
  }

  /** @param max when there are more candidates, it stops looking */
  find(text: string, max: number): Place[] {
    let count = 0;
    const places: Place[] = [];
    let from = 0;
    for (const { 0: ending, index } of text.matchAll(this.#pattern)) {
      const candidates = this.#candidates(text, from, index);
      if (candidates.length === 0) continue;
      from = index + ending.length;
      places.push({ end: from, candidates });
      count += candidates.length;
      if (count > max) break;
    }
    return places;
  }

  #candidates(text: string, from: number, stemEnd: number): Candidate[] {
    const run = runStart(text, from, stemEnd, isInRun);
    const letters = stemEnd - runStart(text, from, stemEnd, isLetter);
    const words = this.#kinds
      .filter(({ settings }) => settings.length <= letters)
      .map((kind) => {
        const start = stemEnd - kind.settings.length;
        const token = text.slice(start, stemEnd).toLowerCase() + this.#ending;
        return { start, token, kind };
      });
    const isWord = run === stemEnd || words.some(({ start }) => start === run);
    if (isWord || stemEnd - run >= MAX_STEM) return words;
    const whole = text.slice(run, stemEnd) + this.#ending;
    return [{ start: run, token: whole, kind: undefined }, ...words];
  }
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
