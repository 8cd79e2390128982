import type { Token, Value } from '../types.ts';
import { looksLikeCard } from './card.ts';
import { dateForm } from './date.ts';
import { digitsForm } from './digits.ts';
import { defaultKind, type KindSettings } from './kind-settings.ts';
import { maskOf } from './mask.ts';
import { normalizerOf } from './normalize.ts';
import { emailShape, grow, olderShapeOf, SHAPED_CHARACTERS, shapeOf } from './shape.ts';
import {
  type ByteBlocks,
  DRAWS_A_LENGTH,
  type DrawBits,
  type Drawn,
  drawStem,
  type Form,
  isRefusal,
  MAX_DRAWS,
  type Refusal,
} from './token.ts';

/** A class of data, ready to draw tokens and to mask values. Pure. */
export interface Kind {
  readonly settings: KindSettings;
  /** Whether `accept` takes up to 0.1 ms: too long for the event loop that serves HTTP. */
  readonly isSlow: boolean;
  /** The uniform value (normalized), or why the kind refuses the text. */
  accept(text: string): { readonly value: Value } | Refusal;
  /**
   * The first acceptable token from draw `from` on; undefined when no draw is left. Skips a draw
   * whose stem or token is the value itself, or whose token looks like a card number. Stems grow by
   * one character each DRAWS_A_LENGTH draws.
   * @param value as `accept` returned it
   * @throws RangeError for a value that the kind refuses
   */
  drawToken(value: Value, suffix: string, draws: DrawBits, from: number): Drawn | undefined;
  /** The value as a masked response shows it. Takes any string. */
  mask(value: string): string;
}

/** Compiles a kind. Does so once: each value must be cheap. */
export function kindOf(settings: KindSettings): Kind {
  return compiled(settings, formOf(settings));
}

function compiled(settings: KindSettings, form: Form<unknown>): Kind {
  const normalized = normalizerOf(settings);
  const hasFixedLength = settings.shape === 'uuid' || settings.shape === 'word';
  const grows = settings.suffix && !hasFixedLength;
  const mayBeCard = settings.check_digits === 'luhn';
  return {
    settings,
    isSlow: settings.normalize.includes('e164'),
    mask: maskOf(settings),
    accept(text) {
      const value = normalized(text);
      if (typeof value !== 'string') return value;
      const plan = form === TEXT || form.plan(value);
      return isRefusal(plan) ? plan : { value: value as Value };
    },
    drawToken(value, suffix, draws, from) {
      const plan = form.plan(value);
      if (isRefusal(plan)) throw new RangeError(`a value ${plan.reason}`);
      const ending = settings.suffix ? `_${suffix}` : '';
      for (let draw = from; draw < MAX_DRAWS; draw++) {
        const extra = grows ? Math.floor(draw / DRAWS_A_LENGTH) : 0;
        const stem = form.stem(plan, extra, (block) => draws(draw, block));
        const token = (stem + ending) as Token;
        const isValue = stem === value || token === (value as string);
        if (!isValue && (mayBeCard || !looksLikeCard(token))) return { token, draw };
      }
      return undefined;
    },
  };
}

function formOf(settings: KindSettings): Form<unknown> {
  switch (settings.shape) {
    case 'text':
      return settings.suffix ? TEXT : exactText(settings.name);
    case 'email':
      return emailForm(settings);
    case 'digits':
      return digitsForm(settings);
    case 'date':
      return dateForm(settings);
    case 'uuid':
      return opaque(drawUuid);
    case 'word':
      return opaque((blocks) => drawStem('a'.repeat(settings.length), blocks));
  }
}

/** The shape without a policy. It refuses nothing. */
const TEXT: Form<string> = {
  plan: shapeOf,
  stem: (shape, extra, blocks) => drawStem(grow(shape, extra), blocks),
};

/** As `Kind.drawToken`, without a policy. */
export const { drawToken } = kindOf(defaultKind('text', 'text'));

/** Draws the tokens that older programs gave to texts: see `olderShapeOf`. */
export const OLDER_TEXT = compiled(defaultKind('text', 'text'), { ...TEXT, plan: olderShapeOf });

/** Texts that need no longer token. */
function exactText(name: string): Form<string> {
  return {
    plan(value) {
      const refusal = tooLong(value);
      if (refusal !== undefined) return refusal;
      const shape = shapeOf(value);
      if (shape.length === [...value].length) return shape;
      return { reason: `has too few letters and digits for kind ${name}: 5 must be free` };
    },
    stem: TEXT.stem,
  };
}

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
function emailForm({ name, keep, suffix }: KindSettings): Form<EmailPlan> {
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

/** Tokens that tell nothing of their values. */
function opaque(drawn: (blocks: ByteBlocks) => string): Form<undefined> {
  return { plan: tooLong, stem: (_, _extra, blocks) => drawn(blocks) };
}

const uuid = Buffer.alloc(16);

/** A version 4, variant 1 UUID (RFC 9562, section 5.4) of the first 16 bytes. */
function drawUuid(blocks: ByteBlocks): string {
  uuid.write(blocks(0), 'latin1');
  uuid[6] = (uuid[6]! & 0x0f) | 0x40;
  uuid[8] = (uuid[8]! & 0x3f) | 0x80;
  const hex = uuid.toString('hex');
  const middle = `${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}`;
  return `${hex.slice(0, 8)}-${middle}-${hex.slice(20)}`;
}

/** Only the length of a `text` token with suffix can tell that its value is longer. */
function tooLong(value: string): Refusal | undefined {
  if (value.length <= SHAPED_CHARACTERS) return undefined;
  return { reason: `is longer than ${SHAPED_CHARACTERS} characters` };
}
