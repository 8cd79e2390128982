/** The value of a token, or the token itself where it stays. */
export type Restore = (token: string) => Promise<string>;

/** The tokens of one request. The answer to it can restore no others. */
export class Tokens {
  readonly #all: ReadonlySet<string>;
  /** What all of them begin with, up to the whole token. */
  readonly #starts = new Set<string>();
  /** Of the tokens without suffix, the longest first. */
  readonly #lengths: readonly number[];
  /** Where a token may end. Models write capitals, and escape the underscore in Markdown. */
  readonly #ending: RegExp;

  /** @param tokens as the service made them: `dmqzkwvhrt_tok` */
  constructor(tokens: Iterable<string>) {
    this.#all = new Set(tokens);
    const [suffixes, lengths] = [new Set<string>(), new Set<number>()];
    for (const token of this.#all) {
      const length = token.lastIndexOf('_');
      lengths.add(length);
      suffixes.add(token.slice(length + 1));
      for (let end = 1; end <= token.length; end++) this.#starts.add(token.slice(0, end));
    }
    this.#lengths = [...lengths].sort((a, b) => b - a);
    this.#ending = new RegExp(`\\\\{0,2}_(${[...suffixes].join('|')})`, 'gi');
  }

  /** The places of tokens in a text, in order. */
  *in(text: string): Generator<{ start: number; end: number; token: string }> {
    for (const { 0: ending, 1: suffix, index } of text.matchAll(this.#ending)) {
      for (const length of this.#lengths) {
        const start = index - length;
        const token = `${text.slice(start, index)}_${suffix}`.toLowerCase();
        if (!this.#all.has(token)) continue;
        yield { start, end: index + ending.length, token };
        break;
      }
    }
  }

  /** How many units at the end of a text can still become a token. */
  openAtEnd(text: string): number {
    const [longest = 0] = this.#lengths;
    for (let length = Math.min(text.length, longest + MOST_ENDING); length > 0; length--) {
      const start = text
        .slice(-length)
        .toLowerCase()
        .replace(/\\{1,2}_?/, '_');
      if (this.#starts.has(start)) return length;
    }
    return 0;
  }
}

/** Two backslashes (in JSON), the underscore and the suffix, of 16 letters at most. */
const MOST_ENDING = 19;

/**
 * Restores the tokens of a text that comes in pieces. It holds back only an end of the text that
 * can still become a token, so less than one token.
 */
export class Restorer {
  readonly #tokens: Tokens;
  readonly #restore: Restore;
  readonly #isJson: boolean;
  #held = '';

  /** @param isJson whether the text is JSON: values get its escapes */
  constructor(tokens: Tokens, restore: Restore, isJson: boolean) {
    this.#tokens = tokens;
    this.#restore = restore;
    this.#isJson = isJson;
  }

  async feed(piece: string): Promise<string> {
    const text = this.#held + piece;
    const parts: (string | Promise<string>)[] = [];
    const asked = new Map<string, Promise<string>>();
    let from = 0;
    for (const { start, end, token } of this.#tokens.in(text)) {
      const value = asked.get(token) ?? this.#restore(token);
      asked.set(token, value);
      const written = text.slice(start, end);
      parts.push(
        text.slice(from, start),
        value.then((one) => this.#shown(one, token, written)),
      );
      from = end;
    }
    const rest = text.slice(from);
    const open = this.#tokens.openAtEnd(rest);
    this.#held = rest.slice(rest.length - open);
    parts.push(rest.slice(0, rest.length - open));
    return (await Promise.all(parts)).join('');
  }

  /** The end of the text: what was held back is no token. */
  end(): string {
    return this.#held;
  }

  #shown(value: string, token: string, written: string): string {
    if (value === token) return written;
    return this.#isJson ? JSON.stringify(value).slice(1, -1) : value;
  }
}
