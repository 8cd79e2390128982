import type { KindSettings } from './kind-settings.ts';
import type { ByteBlocks, Form } from './token.ts';

/** Places of year, month and day among the three parts of a date. */
interface DateOrder {
  readonly year: number;
  readonly month: number;
  readonly day: number;
}

/** How the three parts of a date are written. Shared by all dates that are written so. */
interface Layout {
  readonly separator: string;
  /** Digits of each part. */
  readonly widths: readonly number[];
  /** All orders in which the parts are a real date. At least one. */
  readonly orders: readonly DateOrder[];
  /** undefined: the orders do not agree where the year is. */
  readonly yearPlace: number | undefined;
}

const YEAR_FIRST: DateOrder = { year: 0, month: 1, day: 2 };
const ORDERS: readonly DateOrder[] = [
  YEAR_FIRST,
  { year: 2, month: 1, day: 0 },
  { year: 2, month: 0, day: 1 },
];

const SEPARATORS = ['', '-', '/', '.'];
const ZERO = 0x30;
const JOINED_DIGITS = 8;
const SECONDS = /(:[0-5]\d(?:([.,])(\d{1,9}))?)?/.source;
const ZONE = /(Z|[+-](?:0\d|1[0-4])(?::?[0-5]\d)?)?/.source;
const TIME = new RegExp(`^([T ])(?:[01]\\d|2[0-3]):[0-5]\\d${SECONDS}${ZONE}$`);
const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** The date that is read or drawn, part by part. All calls share it: they are synchronous. */
const numbers = [0, 0, 0];
const widths = [0, 0, 0];
let separator = 0;

/** All layouts that were met: at most some hundred. */
const layouts = new Map<number, Layout>();

/** How a date is written; undefined: the text is not a real date. */
export function notationOf(text: string) {
  const end = readParts(text);
  if (end === undefined) return undefined;
  const orders = separator === 0 ? joinedOrders() : fittingOrders();
  if (orders === 0) return undefined;
  const layout = layoutOf(orders);
  const year = layout.yearPlace === undefined ? Number.NaN : numbers[layout.yearPlace]!;
  if (end === text.length) return { layout, year, time: undefined };
  const time = timeNotation(text.slice(end));
  return time === undefined ? undefined : { layout, year, time };
}

/** Whether numbers are a date of the calendar. A two-digit year is one from 2000 to 2099. */
function isReal({ year, month, day }: DateOrder, date: readonly number[]): boolean {
  const y = date[year]!;
  const m = date[month]!;
  const d = date[day]!;
  const isLeap = y % 4 === 0 && (y % 100 !== 0 || y % 400 === 0);
  const days = DAYS[m - 1] ?? 0;
  return d >= 1 && d <= (m === 2 && isLeap ? 29 : days);
}

/** Reads three numbers with one separator, or eight digits. Returns where they end. */
function readParts(text: string): number | undefined {
  let part = 0;
  separator = 0;
  numbers[0] = widths[0] = 0;
  for (let i = 0; i < text.length; i++) {
    const digit = text.charCodeAt(i) - ZERO;
    if (digit >= 0 && digit <= 9) {
      numbers[part] = numbers[part]! * 10 + digit;
      if (++widths[part]! > JOINED_DIGITS) return undefined;
      continue;
    }
    const found = part === 2 ? 0 : SEPARATORS.indexOf(text.charAt(i));
    if (found < 1) return isWhole(part) ? i : undefined;
    if (part === 1 && found !== separator) return undefined;
    separator = found;
    numbers[++part] = widths[part] = 0;
  }
  return isWhole(part) ? text.length : undefined;
}

/** Whether what was read has three parts, or eight digits in a row. An empty part is 0: no date. */
function isWhole(part: number): boolean {
  return part === 0 ? widths[0] === JOINED_DIGITS : part === 2;
}

/** Nearly no date of our days can be read in two ways. The first is that of ISO 8601. */
function joinedOrders(): number {
  const date = numbers[0]!;
  set(numbers, Math.floor(date / 10_000), Math.floor(date / 100) % 100, date % 100);
  set(widths, 4, 2, 2);
  const yearFirst = fittingOrders();
  if (yearFirst !== 0) return yearFirst;
  set(numbers, Math.floor(date / 1_000_000), Math.floor(date / 10_000) % 100, date % 10_000);
  set(widths, 2, 2, 4);
  return fittingOrders();
}

function set(parts: number[], first: number, second: number, third: number): void {
  parts[0] = first;
  parts[1] = second;
  parts[2] = third;
}

/** A set of orders as bits. */
function fittingOrders(): number {
  let fitting = 0;
  for (let i = 0; i < ORDERS.length; i++) {
    if (fits(ORDERS[i]!)) fitting |= 1 << i;
  }
  return fitting;
}

/** Years of two digits, or of four from 1000 on. */
function fits(order: DateOrder): boolean {
  const { year, month, day } = order;
  const isYear = widths[year] === 2 || (widths[year] === 4 && numbers[year]! >= 1000);
  return isYear && widths[month]! <= 2 && widths[day]! <= 2 && isReal(order, numbers);
}

function layoutOf(fitting: number): Layout {
  const [a, b, c] = widths as [number, number, number];
  const key = ((((separator << 3) + fitting) * 5 + a) * 5 + b) * 5 + c;
  const known = layouts.get(key);
  if (known !== undefined) return known;
  const orders = ORDERS.filter((_, i) => (fitting & (1 << i)) !== 0);
  const { year } = orders[0]!;
  const yearPlace = orders.every((order) => order.year === year) ? year : undefined;
  const layout = { separator: SEPARATORS[separator]!, widths: [a, b, c], orders, yearPlace };
  layouts.set(key, layout);
  return layout;
}

/** How the time after a date is written: `T10:20:30.123Z`. */
function timeNotation(text: string) {
  const match = TIME.exec(text);
  if (match === null) return undefined;
  const [, joint, seconds, point = '', decimals = '', zone = ''] = match;
  const hasSeconds = seconds !== undefined;
  return { joint: joint!, hasSeconds, point, decimals: decimals.length, zone };
}

interface DatePlan extends Pick<Notation, 'year' | 'time'> {
  readonly layoutPlan: ReturnType<typeof planOf>;
}
type Notation = NonNullable<ReturnType<typeof notationOf>>;

/** Letters that make 10^6 stems of the days of one year, and of a hundred years. */
const LETTERS_OF_KEPT_YEAR = 3;
const LETTERS_OF_SHORT_YEAR = 2;
const NO_DATE = { reason: 'is not a real date like 1985-04-12, 12.04.1985 or 4/12/85' };
/** `00` to `99`. */
const TWO_DIGITS = Array.from({ length: 100 }, (_, n) => String(n).padStart(2, '0'));

/**
 * Real dates of the years 1000 to 9999, written as the value is. If the value can be read in two
 * orders, so can the token. Draws the time too, and keeps its zone. Stems grow by letters.
 */
export function dateForm(settings: KindSettings): Form<DatePlan> {
  const plans = new Map<Layout, ReturnType<typeof planOf>>();
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

/** How the dates of a layout are drawn. */
function planOf(layout: Layout, { keep, suffix }: KindSettings) {
  const { widths, yearPlace } = layout;
  const keepsYear = keep === 'year';
  const isShortYear = widths.every((width) => width <= 2);
  const isPadded = widths.every((width) => width >= 2);
  const lettersOfYear = isShortYear ? LETTERS_OF_SHORT_YEAR : 0;
  return {
    layout,
    /** Why the kind refuses them. */
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

/** The numbers that the part may be in every order, and how many digits it has at least. */
function drawnPart({ widths, orders }: Layout, place: number, isPadded: boolean) {
  let low = 0;
  let high = 9999;
  let width = isPadded ? 2 : 1;
  for (const { year, month } of orders) {
    if (place === year) {
      width = widths[place]!;
      if (width === 4) low = 1000;
      else high = Math.min(high, 99);
    } else {
      low = 1;
      high = Math.min(high, place === month ? 12 : 31);
    }
  }
  return { low, count: high - low + 1, width };
}

/** Draws the parts as they are written, until they are a real date in every order of the value. */
function drawnDate(
  { layout, parts, keptPlace }: DatePlan['layoutPlan'],
  year: number,
  bytes: ByteStream,
) {
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

function drawnTime(time: NonNullable<Notation['time']>, bytes: ByteStream): string {
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
