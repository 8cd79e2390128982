import { looksLikeCard } from './card.ts';
import type { KindSettings } from './kind-settings.ts';
import { emailShape, SHAPED_CHARACTERS } from './shape.ts';
import { drawStem, type Form } from './token.ts';

/** 26^5 stems are more than MIN_STEMS, 26^4 are fewer. */
const MIN_LETTERS = 5;
const PRINTABLE = /^[!-~]+$/;

interface EmailPlan {
  /** The shape of what is drawn. */
  readonly drawn: string;
  /** Follows what is drawn. */
  readonly kept: string;
}

/**
 * E-mail addresses: one `@`, a dot in the domain, no space. Draws a letter for each character but
 * `@`, the last dot, and the part of the domain that is kept. Stems grow before the `@`.
 */
export function emailForm({ name, keep, suffix }: KindSettings): Form<EmailPlan> {
  // The character before the kept part.
  const lastDrawn = keep === 'domain' ? '@' : '.';
  return {
    plan(value) {
      const shape = value.length > SHAPED_CHARACTERS ? undefined : emailShape(value);
      if (shape === undefined)
        return { reason: `is not an e-mail address of at most ${SHAPED_CHARACTERS} characters` };
      const kept = keep === 'nothing' ? '' : value.slice(value.lastIndexOf(lastDrawn) + 1);
      if (kept !== '' && !PRINTABLE.test(kept))
        return { reason: 'has a domain to keep that is not ASCII: write it in Punycode (xn--...)' };
      if (looksLikeCard(kept))
        return { reason: 'has a domain to keep that looks like a card number' };
      const end = keep === 'nothing' ? shape.length : shape.lastIndexOf(lastDrawn) + 1;
      const drawn = shape.slice(0, end);
      const missing = MIN_LETTERS - (drawn.length - (keep === 'domain' ? 1 : 2));
      if (missing <= 0) return { drawn, kept };
      if (suffix) return { drawn: 'a'.repeat(missing) + drawn, kept };
      return { reason: `has too few characters for kind ${name}: ${MIN_LETTERS} must be free` };
    },
    stem: ({ drawn, kept }, extra, blocks) => drawStem('a'.repeat(extra) + drawn, blocks) + kept,
  };
}
