import type { Found } from '../../detect/found.ts';
import type { Kind, Viewer } from '../../policy/rules.ts';
import type { Exchange } from '../exchange.ts';
import { invalid } from './data.ts';
import { findSpans } from './found-spans.ts';

/**
 * Between texts that are read as one. It is half of a surrogate pair, which no text contains, and
 * no part of a token.
 */
export const SEPARATOR = '\ud800';

/** The values that the policy finds in many texts. */
export class FoundValues {
  readonly texts: readonly string[];
  readonly viewer: Viewer;
  readonly #whole: readonly string[];
  readonly #spans: readonly (readonly Found[])[];
  readonly #kinds: readonly Kind[];

  /** @throws CallerError invalid_type when the policy finds nothing by itself, and as findSpans */
  static async in(
    exchange: Exchange,
    viewer: Viewer,
    texts: readonly string[],
  ): Promise<FoundValues> {
    if (viewer.rules.detect.length === 0)
      throw invalid('texts: the policy has no detect, so nothing is found; an operator can add it');
    const searched = texts.map((text) => ({ text, spans: [] }));
    const spans = await findSpans(exchange, viewer, searched, { isDetecting: true });
    return new FoundValues(viewer, texts, spans);
  }

  private constructor(
    viewer: Viewer,
    whole: readonly string[],
    spans: readonly (readonly Found[])[],
  ) {
    this.viewer = viewer;
    this.texts = spans.flatMap((ofOne, i) =>
      ofOne.map(({ from, to }) => whole[i]!.slice(from, to)),
    );
    this.#kinds = spans.flat().map(({ kind }) => viewer.rules.kind(kind));
    this.#whole = whole;
    this.#spans = spans;
  }

  kindOf(index: number): Kind {
    return this.#kinds[index]!;
  }

  pathOf(): string {
    return 'texts';
  }

  /** The texts with the tokens. */
  replaced(tokens: readonly string[]): string[] {
    let next = 0;
    return this.#whole.map((text, i) => {
      let from = 0;
      const parts = this.#spans[i]!.map((span) => {
        const before = text.slice(from, span.from);
        from = span.to;
        return before + tokens[next++];
      });
      return parts.join('') + text.slice(from);
    });
  }
}
