import type { Form, Refusal } from './form.ts';
import type { KindSettings } from './kind-settings.ts';
import type { ByteBlocks } from './token.ts';

/** Places of year, month and day among the three parts of a date. */
interface Order {
  readonly year: number;
  readonly month: number;
  readonly day: number;
}

const YEAR_FIRST: Order = { year: 0, month: 1, day: 2 };
const YEAR_LAST: readonly Order[] = [
  { year: 2, month: 1, day: 0 },
  { year: 2, month: 0, day: 1 },
];

/** How the time after a date is written: `T10:20:30.123Z`. */
interface TimeNotation {
  readonly joint: string;
  readonly hasSeconds: boolean;
  /** `.` or `,` */
  readonly point: string;
  readonly decimals: number;
  readonly zone: string;
}

/** How a date is written. */
interface Notation {
  readonly parts: readonly string[];
  readonly separator: string;
  /** All orders in which the parts are a real date. At least one. */
  readonly orders: readonly Order[];
  readonly time: TimeNotation | undefined;
}

/** The numbers that a part of a date may be, and how many digits it has at least. */
interface Part {
  readonly low: number;
  readonly high: number;
  readonly width: number;
}

interface DatePlan extends Notation {
  readonly drawn: readonly Part[];
  readonly letters: number;
}

const SEPARATED = /^(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})(?=$|[T ])/;
const JOINED = /^\d{8}(?=$|[T ])/;
const SECONDS = /(:[0-5]\d(?:([.,])(\d{1,9}))?)?/.source;
const ZONE = /(Z|[+-](?:0\d|1[0-4])(?::?[0-5]\d)?)?/.source;
const TIME = new RegExp(`^([T ])(?:[01]\\d|2[0-3]):[0-5]\\d${SECONDS}${ZONE}$`);
const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/** Letters that make 10^6 stems of the days of one year, and of a hundred years. */
const LETTERS_OF_KEPT_YEAR = 3;
const LETTERS_OF_SHORT_YEAR = 2;

/**
 * Real dates of the years 1000 to 9999, written as the value is. If the value can be read in two
 * orders, so can the token. Draws the time too, and keeps its zone. Stems grow by letters.
 */
export class DateForm implements Form<DatePlan> {
  readonly #keepsYear: boolean;
  readonly #suffix: boolean;

  constructor({ keep, suffix }: KindSettings) {
    this.#keepsYear = keep === 'year';
    this.#suffix = suffix;
  }

  plan(value: string): DatePlan | Refusal {
    const notation = notationOf(value);
    if (notation === undefined) {
      return { reason: 'is not a real date like 1985-04-12, 12.04.1985 or 4/12/85' };
    }
    const { parts } = notation;
    const year = yearPlace(notation);
    if (this.#keepsYear && year === undefined) {
      return { reason: 'has a year to keep that could be its month or day' };
    }
    const isShortYear = parts.every((part) => part.length <= 2);
    const isPadded = parts.every((part) => part.length >= 2);
    if (!this.#suffix && (isShortYear || !isPadded)) {
      return {
        reason: 'has no four-digit year, two-digit month and day: without suffix it needs them',
      };
    }
    const drawn = parts.map((part, place) =>
      this.#keepsYear && place === year ? keptPart(part) : drawnPart(notation, place, isPadded),
    );
    const letters = isShortYear ? LETTERS_OF_SHORT_YEAR : 0;
    return { ...notation, drawn, letters: this.#keepsYear ? LETTERS_OF_KEPT_YEAR : letters };
  }

  /** Draws the date, then the time, then letters. */
  stem(plan: DatePlan, extra: number, blocks: ByteBlocks): string {
    const bytes = new ByteStream(blocks);
    const date = drawnDate(plan, bytes);
    const dateTime = plan.time === undefined ? date : date + drawnTime(plan.time, bytes);
    return dateTime + bytes.letters(plan.letters + extra);
  }
}

/** The year as it is written; undefined: no date, or its year could be its month or day. */
export function yearOf(value: string): string | undefined {
  const notation = notationOf(value);
  const place = notation === undefined ? undefined : yearPlace(notation);
  return place === undefined ? undefined : notation!.parts[place];
}

function yearPlace({ orders }: Pick<Notation, 'orders'>): number | undefined {
  const [first] = orders;
  return orders.every((order) => order.year === first!.year) ? first!.year : undefined;
}

function notationOf(value: string): Notation | undefined {
  const separated = SEPARATED.exec(value);
  if (separated !== null) {
    const [date, first, separator, second, third] = separated;
    const parts = [first!, second!, third!];
    return withTime(parts, separator!, [YEAR_FIRST, ...YEAR_LAST], value.slice(date.length));
  }
  const joined = JOINED.exec(value);
  if (joined === null) return undefined;
  const [date] = joined;
  const time = value.slice(date.length);
  // Nearly no date of our days can be read in both ways, and this is the way of ISO 8601.
  const isYearFirst = fits(YEAR_FIRST, split(date, 4, 6));
  return isYearFirst
    ? withTime(split(date, 4, 6), '', [YEAR_FIRST], time)
    : withTime(split(date, 2, 4), '', YEAR_LAST, time);
}

function withTime(
  parts: readonly string[],
  separator: string,
  orders: readonly Order[],
  timeText: string,
): Notation | undefined {
  const fitting = orders.filter((order) => fits(order, parts));
  if (fitting.length === 0) return undefined;
  if (timeText === '') return { parts, separator, orders: fitting, time: undefined };
  const match = TIME.exec(timeText);
  if (match === null) return undefined;
  const [, joint, seconds, point = '', decimals = '', zone = ''] = match;
  const hasSeconds = seconds !== undefined;
  const time = { joint: joint!, hasSeconds, point, decimals: decimals.length, zone };
  return { parts, separator, orders: fitting, time };
}

function split(date: string, first: number, second: number): string[] {
  return [date.slice(0, first), date.slice(first, second), date.slice(second)];
}

function fits(order: Order, parts: readonly string[]): boolean {
  const { year, month, day } = order;
  const isLayout =
    parts[month]!.length <= 2 &&
    parts[day]!.length <= 2 &&
    /^(\d\d|[1-9]\d{3})$/.test(parts[year]!);
  return isLayout && isReal(order, parts.map(Number));
}

/** A two-digit year is a leap year every four years, as from 2000 to 2099. */
function isReal({ year, month, day }: Order, numbers: readonly number[]): boolean {
  const [y, m, d] = [numbers[year]!, numbers[month]!, numbers[day]!];
  if (m < 1 || m > 12 || d < 1) return false;
  const isLeap = y % 4 === 0 && (y < 100 || y % 100 !== 0 || y % 400 === 0);
  return d <= DAYS[m - 1]! + (m === 2 && isLeap ? 1 : 0);
}

function keptPart(part: string): Part {
  return { low: Number(part), high: Number(part), width: part.length };
}

/** The numbers that the part may be in every order. */
function drawnPart({ parts, orders }: Notation, place: number, isPadded: boolean): Part {
  let [low, high, width] = [0, 9999, isPadded ? 2 : 1];
  for (const { year, month } of orders) {
    if (place === year) {
      width = parts[place]!.length;
      low = Math.max(low, width === 4 ? 1000 : 0);
      high = Math.min(high, width === 4 ? 9999 : 99);
    } else {
      low = Math.max(low, 1);
      high = Math.min(high, place === month ? 12 : 31);
    }
  }
  return { low, high, width };
}

/** Draws the parts as they are written, until they are a real date in every order of the value. */
function drawnDate({ drawn, orders, separator }: DatePlan, bytes: ByteStream): string {
  for (;;) {
    const numbers = drawn.map(({ low, high }) =>
      low === high ? low : low + bytes.below(high - low + 1),
    );
    const date = numbers.map((n, place) => padded(n, drawn[place]!.width)).join(separator);
    const isReadOtherwise =
      separator === '' && yearPlace({ orders }) === 2 && fits(YEAR_FIRST, split(date, 4, 6));
    if (!isReadOtherwise && orders.every((order) => isReal(order, numbers))) return date;
  }
}

function drawnTime(time: TimeNotation, bytes: ByteStream): string {
  let text = `${time.joint}${padded(bytes.below(24), 2)}:${padded(bytes.below(60), 2)}`;
  if (time.hasSeconds) text += `:${padded(bytes.below(60), 2)}${time.point}`;
  for (let i = 0; i < time.decimals; i++) text += bytes.below(10);
  return text + time.zone;
}

function padded(n: number, width: number): string {
  return String(n).padStart(width, '0');
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
