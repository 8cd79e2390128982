import { isReal, type Layout, notationOf, type TimeNotation } from './date-notation.ts';
import type { KindSettings } from './kind-settings.ts';
import type { ByteBlocks, Form } from './token.ts';

/** The numbers that a part of a date may be, and how many digits it has at least. */
interface DatePart {
  readonly low: number;
  readonly count: number;
  readonly width: number;
}

/** How the dates of a layout are drawn. */
interface LayoutPlan {
  readonly layout: Layout;
  /** Why the kind refuses them. */
  readonly reason: string | undefined;
  readonly parts: readonly DatePart[];
  readonly keptPlace: number | undefined;
  readonly letters: number;
}

interface DatePlan {
  readonly layoutPlan: LayoutPlan;
  readonly year: number;
  readonly time: TimeNotation | undefined;
}

/** Letters that make 10^6 stems of the days of one year, and of a hundred years. */
const LETTERS_OF_KEPT_YEAR = 3;
const LETTERS_OF_SHORT_YEAR = 2;
const NO_DATE = { reason: 'is not a real date like 1985-04-12, 12.04.1985 or 4/12/85' };
/** `00` to `99`. */
const TWO_DIGITS = Array.from({ length: 100 }, (_, n) => String(n).padStart(2, '0'));

/** The date that is drawn. All draws share it, because they are synchronous. */
const numbers = [0, 0, 0];

/**
 * Real dates of the years 1000 to 9999, written as the value is. If the value can be read in two
 * orders, so can the token. Draws the time too, and keeps its zone. Stems grow by letters.
 */
export function dateForm(settings: KindSettings): Form<DatePlan> {
  const plans = new Map<Layout, LayoutPlan>();
  return {
    plan(value) {
      const notation = notationOf(value);
      if (notation === undefined) return NO_DATE;
      const { layout, year, time } = notation;
      const layoutPlan = plans.get(layout) ?? planOf(layout, settings);
      plans.set(layout, layoutPlan);
      const { reason } = layoutPlan;
      return reason === undefined ? { layoutPlan, year, time } : { reason };
    },
    /** Draws the date, then the time, then letters. */
    stem({ layoutPlan, year, time }, extra, blocks) {
      const bytes = new ByteStream(blocks);
      const date = drawnDate(layoutPlan, year, bytes);
      const dateTime = time === undefined ? date : date + drawnTime(time, bytes);
      return dateTime + bytes.letters(layoutPlan.letters + extra);
    },
  };
}

function planOf(layout: Layout, { keep, suffix }: KindSettings): LayoutPlan {
  const { widths, yearPlace } = layout;
  const keepsYear = keep === 'year';
  const isShortYear = widths.every((width) => width <= 2);
  const isPadded = widths.every((width) => width >= 2);
  const lettersOfYear = isShortYear ? LETTERS_OF_SHORT_YEAR : 0;
  return {
    layout,
    reason:
      keepsYear && yearPlace === undefined
        ? 'has a year to keep that could be its month or day'
        : suffix || (isPadded && !isShortYear)
          ? undefined
          : 'has no four-digit year, two-digit month and day: without suffix it needs them',
    parts: widths.map((_, place) => drawnPart(layout, place, isPadded)),
    keptPlace: keepsYear ? yearPlace : undefined,
    letters: keepsYear ? LETTERS_OF_KEPT_YEAR : lettersOfYear,
  };
}

/** The numbers that the part may be in every order. */
function drawnPart({ widths, orders }: Layout, place: number, isPadded: boolean): DatePart {
  let low = 0;
  let high = 9999;
  let width = isPadded ? 2 : 1;
  for (const { year, month } of orders) {
    if (place === year) {
      width = widths[place]!;
      low = Math.max(low, width === 4 ? 1000 : 0);
      high = Math.min(high, width === 4 ? 9999 : 99);
    } else {
      low = Math.max(low, 1);
      high = Math.min(high, place === month ? 12 : 31);
    }
  }
  return { low, count: high - low + 1, width };
}

/** Draws the parts as they are written, until they are a real date in every order of the value. */
function drawnDate({ layout, parts, keptPlace }: LayoutPlan, year: number, bytes: ByteStream) {
  const { orders, separator, yearPlace } = layout;
  const isReadByIso = separator === '' && yearPlace === 2;
  for (;;) {
    let date = '';
    for (let place = 0; place < parts.length; place++) {
      const { low, count, width } = parts[place]!;
      const number = place === keptPlace ? year : low + bytes.below(count);
      numbers[place] = number;
      date += (place === 0 ? '' : separator) + (width === 2 ? TWO_DIGITS[number] : number);
    }
    const isDate = orders.every((order) => isReal(order, numbers));
    if (isDate && !(isReadByIso && notationOf(date)?.layout.yearPlace === 0)) return date;
  }
}

function drawnTime(time: TimeNotation, bytes: ByteStream): string {
  let text = `${time.joint}${TWO_DIGITS[bytes.below(24)]}:${TWO_DIGITS[bytes.below(60)]}`;
  if (time.hasSeconds) text += `:${TWO_DIGITS[bytes.below(60)]}${time.point}`;
  for (let i = 0; i < time.decimals; i++) text += bytes.below(10);
  return text + time.zone;
}

/** Uniform numbers from random bytes. Rejects what would favor the low ones. */
class ByteStream {
  readonly #blocks: ByteBlocks;
  #bytes: string;
  #block = 0;
  #next = 0;

  constructor(blocks: ByteBlocks) {
    this.#blocks = blocks;
    this.#bytes = blocks(0);
  }

  /** 0 <= n < bound. One byte, or for more than 256 numbers two, the high byte first. */
  below(bound: number): number {
    const range = bound > 256 ? 65_536 : 256;
    let n: number;
    do n = range === 256 ? this.#byte() : this.#byte() * 256 + this.#byte();
    while (n >= range - (range % bound));
    return n % bound;
  }

  /** `_` and this many letters; nothing for 0. */
  letters(count: number): string {
    let text = count === 0 ? '' : '_';
    for (let i = 0; i < count; i++) text += String.fromCharCode(0x61 + this.below(26));
    return text;
  }

  #byte(): number {
    if (this.#next === this.#bytes.length) {
      this.#bytes = this.#blocks(++this.#block);
      this.#next = 0;
    }
    return this.#bytes.charCodeAt(this.#next++);
  }
}
