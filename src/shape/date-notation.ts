/** Places of year, month and day among the three parts of a date. */
export interface DateOrder {
  readonly year: number;
  readonly month: number;
  readonly day: number;
}

/** How the three parts of a date are written. Shared by all dates that are written so. */
export interface Layout {
  readonly separator: string;
  /** Digits of each part. */
  readonly widths: readonly number[];
  /** All orders in which the parts are a real date. At least one. */
  readonly orders: readonly DateOrder[];
  /** undefined: the orders do not agree where the year is. */
  readonly yearPlace: number | undefined;
}

/** How the time after a date is written: `T10:20:30.123Z`. */
export interface TimeNotation {
  readonly joint: string;
  readonly hasSeconds: boolean;
  /** `.` or `,` */
  readonly point: string;
  readonly decimals: number;
  readonly zone: string;
}

interface Notation {
  readonly layout: Layout;
  /** NaN: the orders do not agree. */
  readonly year: number;
  readonly time: TimeNotation | undefined;
}

const YEAR_FIRST: DateOrder = { year: 0, month: 1, day: 2 };
const ORDERS: readonly DateOrder[] = [
  YEAR_FIRST,
  { year: 2, month: 1, day: 0 },
  { year: 2, month: 0, day: 1 },
];
/** Bits of a set of orders. */
const ONLY_YEAR_FIRST = 0b001;
const ONLY_YEAR_LAST = 0b110;
const ANY = 0b111;

const SEPARATORS = ['', '-', '/', '.'];
const ZERO = 0x30;
const JOINED_DIGITS = 8;
const SECONDS = /(:[0-5]\d(?:([.,])(\d{1,9}))?)?/.source;
const ZONE = /(Z|[+-](?:0\d|1[0-4])(?::?[0-5]\d)?)?/.source;
const TIME = new RegExp(`^([T ])(?:[01]\\d|2[0-3]):[0-5]\\d${SECONDS}${ZONE}$`);
const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** The date that is read, part by part. All calls share it, because they are synchronous. */
const numbers = [0, 0, 0];
const widths = [0, 0, 0];
let separator = 0;

/** All layouts that were met: at most some hundred. */
const layouts = new Map<number, Layout>();

/** How a date is written; undefined: the text is not a real date. */
export function notationOf(text: string): Notation | undefined {
  const end = readParts(text);
  if (end === undefined) return undefined;
  const orders = separator === 0 ? joinedOrders() : fittingOrders(ANY);
  if (orders === 0) return undefined;
  const layout = layoutOf(orders);
  const year = layout.yearPlace === undefined ? Number.NaN : numbers[layout.yearPlace]!;
  if (end === text.length) return { layout, year, time: undefined };
  const time = timeNotation(text.slice(end));
  return time === undefined ? undefined : { layout, year, time };
}

/** Whether numbers are a date of the calendar. A two-digit year is one from 2000 to 2099. */
export function isReal({ year, month, day }: DateOrder, date: readonly number[]): boolean {
  const y = date[year]!;
  const m = date[month]!;
  const d = date[day]!;
  if (m < 1 || m > 12 || d < 1) return false;
  const isLeap = y % 4 === 0 && (y < 100 || y % 100 !== 0 || y % 400 === 0);
  return d <= DAYS[m - 1]! + (m === 2 && isLeap ? 1 : 0);
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
    const found = part === 2 ? 0 : SEPARATORS.indexOf(text.charAt(i), 1);
    if (found < 1) return isWhole(part) ? i : undefined;
    if (part === 1 && found !== separator) return undefined;
    separator = found;
    numbers[++part] = widths[part] = 0;
  }
  return isWhole(part) ? text.length : undefined;
}

/** Whether what was read has three parts, or eight digits in a row. */
function isWhole(part: number): boolean {
  return part === 0 ? widths[0] === JOINED_DIGITS : part === 2 && widths[1]! * widths[2]! > 0;
}

/** Nearly no date of our days can be read in two ways. The first is that of ISO 8601. */
function joinedOrders(): number {
  const date = numbers[0]!;
  setParts(Math.floor(date / 10_000), Math.floor(date / 100) % 100, date % 100);
  widths.splice(0, 3, 4, 2, 2);
  const yearFirst = fittingOrders(ONLY_YEAR_FIRST);
  if (yearFirst !== 0) return yearFirst;
  setParts(Math.floor(date / 1_000_000), Math.floor(date / 10_000) % 100, date % 10_000);
  widths.splice(0, 3, 2, 2, 4);
  return fittingOrders(ONLY_YEAR_LAST);
}

function setParts(...parts: readonly [number, number, number]): void {
  numbers.splice(0, 3, ...parts);
}

function fittingOrders(among: number): number {
  let fitting = 0;
  for (let i = 0; i < ORDERS.length; i++) {
    if ((among & (1 << i)) !== 0 && fits(ORDERS[i]!)) fitting |= 1 << i;
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

function timeNotation(text: string): TimeNotation | undefined {
  const match = TIME.exec(text);
  if (match === null) return undefined;
  const [, joint, seconds, point = '', decimals = '', zone = ''] = match;
  const hasSeconds = seconds !== undefined;
  return { joint: joint!, hasSeconds, point, decimals: decimals.length, zone };
}
