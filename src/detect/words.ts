import type { Found } from './found.ts';

/** Letters of scripts without spaces between words are words of their own. */
const PARTS =
  /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]|[\p{L}\p{M}\p{N}]+/gu;
/** Of a listed word. The time to find words grows with it. */
export const MAX_WORD_PARTS = 20;

interface Node {
  readonly next: Map<string, Node>;
  /** Of the word that ends here. */
  kind?: string;
}

/**
 * Finds listed words in texts: whole words, in any case, the longest first. Between the parts of
 * one, such as name and surname, the text may have other blanks and punctuation.
 */
export class Words {
  readonly #root: Node = { next: new Map() };

  /** @returns false for a word without letters and digits, or with too many parts */
  add(word: string, kind: string): boolean {
    const parts = partsOf(word);
    if (parts.length === 0 || parts.length > MAX_WORD_PARTS) return false;
    let node = this.#root;
    for (const { part } of parts) {
      const next = node.next.get(part) ?? { next: new Map() };
      node.next.set(part, next);
      node = next;
    }
    node.kind = kind;
    return true;
  }

  find(text: string): Found[] {
    const parts = partsOf(text);
    const found: Found[] = [];
    for (let first = 0; first < parts.length; ) {
      let node: Node | undefined = this.#root;
      let end = first;
      for (let i = first; i < parts.length && node !== undefined; i++) {
        node = node.next.get(parts[i]!.part);
        if (node?.kind === undefined) continue;
        const [from, to] = [parts[first]!.from, parts[i]!.to];
        if (end > first) found.pop();
        found.push({ from, to, kind: node.kind, finder: 'words' });
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
