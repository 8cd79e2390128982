import type { Value } from '../types.ts';
import { dateForm } from './date.ts';
import { digitsForm } from './digits.ts';
import { emailForm } from './email.ts';
import type { KindSettings, MaskSettings, Shape } from './kind-settings.ts';
import { maskOf } from './mask.ts';
import { normalizerOf } from './normalize.ts';
import { grow, olderShapeOf, SHAPED_CHARACTERS, shapeOf } from './shape.ts';
import {
  type ByteBlocks,
  type DrawBits,
  type Drawn,
  drawStem,
  type Form,
  firstAcceptable,
  isRefusal,
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
   * The first acceptable token from draw `from` on; undefined when no draw is left.
   * @param value as `accept` returned it
   * @throws RangeError for a value that the kind refuses
   */
  drawToken(value: Value, suffix: string, draws: DrawBits, from: number): Drawn | undefined;
  /** What a masked answer shows of a value. Takes any string. */
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
      const terms = { ending: settings.suffix ? `_${suffix}` : '', grows, mayBeCard };
      return firstAcceptable(value, terms, draws, from, (extra, blocks) =>
        form.stem(plan, extra, blocks),
      );
    },
  };
}

/** The settings of a kind that only has a name and a shape. */
export function defaultKind(name: string, shape: Shape): KindSettings {
  return {
    name,
    shape,
    keep: 'nothing',
    keep_first: 0,
    keep_last: 0,
    begins_with: '',
    check_digits: 'none',
    length: 10,
    suffix: true,
    normalize: [],
    country: null,
    tokens: null,
    time_to_live_s: null,
    mask: DEFAULT_MASKS[shape],
  };
}

const NOTHING: MaskSettings = { show: 'nothing' };
const DEFAULT_MASKS: Readonly<Record<Shape, MaskSettings>> = {
  text: NOTHING,
  email: { show: 'domain' },
  digits: { show: 'ends', first: 0, last: 4 },
  date: { show: 'year' },
  uuid: NOTHING,
  word: NOTHING,
};

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
