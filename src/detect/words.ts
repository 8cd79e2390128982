import type { Stretch } from './detectors.ts';

/** Letters of scripts without spaces between words are words of their own. */
const PARTS =
  /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]|[\p{L}\p{M}\p{N}]+/gu;
/** Of a listed word. The time to find words grows with it. */
export const MAX_WORD_PARTS = 20;

interface Node<Meaning> {
  readonly next: Map<string, Node<Meaning>>;
  meaning?: Meaning;
}

/**
 * Finds listed words in texts: whole words, in any case, the longest first. Between the parts of
 * one, such as name and surname, the text may have other blanks and punctuation.
 */
export class Words<Meaning> {
  readonly #root: Node<Meaning> = { next: new Map() };

  /** @returns false for a word without letters and digits, or with too many parts */
  add(word: string, meaning: Meaning): boolean {
    const parts = partsOf(word);
    if (parts.length === 0 || parts.length > MAX_WORD_PARTS) return false;
    let node = this.#root;
    for (const { part } of parts) {
      const next = node.next.get(part) ?? { next: new Map() };
      node.next.set(part, next);
      node = next;
    }
    node.meaning = meaning;
    return true;
  }

  find(text: string): (Stretch & { readonly meaning: Meaning })[] {
    const parts = partsOf(text);
    const found: (Stretch & { readonly meaning: Meaning })[] = [];
    for (let first = 0; first < parts.length; ) {
      let node: Node<Meaning> | undefined = this.#root;
      let end = first;
      for (let i = first; i < parts.length && node !== undefined; i++) {
        node = node.next.get(parts[i]!.part);
        if (node?.meaning === undefined) continue;
        const stretch = { from: parts[first]!.from, to: parts[i]!.to, meaning: node.meaning };
        if (end > first) found.pop();
        found.push(stretch);
        end = i + 1;
      }
      first = Math.max(first + 1, end);
    }
    return found;
  }
}

function partsOf(text: string) {
  return Array.from(text.matchAll(PARTS), ({ 0: part, index }) => ({
    part: part.normalize('NFC').toLowerCase(),
    ...{ from: index, to: index + part.length },
  }));
}
