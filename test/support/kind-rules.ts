import type { KindSettings } from '../../src/shape/kind-settings.ts';
import { tokenPattern } from './token-rules.ts';

/**
 * The rules of docs/operating/kinds.md, implemented a second time, independently of src/shape. A
 * pattern that the first tokens of a value must match, without suffix.
 */
export function stemPattern(settings: KindSettings, value: string): RegExp {
  const { shape, keep, length } = settings;
  if (shape === 'uuid')
    return /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
  if (shape === 'word') return new RegExp(`^[a-z]{${length}}$`);
  if (shape === 'digits') return digitsPattern(settings, value);
  if (shape === 'date') return datePattern(settings, value);
  const text = tokenPattern(value).source.replace('_tok', '');
  if (shape === 'text' || keep === 'nothing') return new RegExp(text);
  const separator = keep === 'domain' ? '@' : '.';
  const kept = value.slice(value.lastIndexOf(separator));
  const drawn = [...value.slice(0, value.lastIndexOf(separator))];
  const at = drawn.indexOf('@');
  const local = at === -1 ? drawn.length : at;
  const domain = at === -1 ? '' : `@[a-z]{${drawn.length - at - 1}}`;
  const letters = drawn.length - (at === -1 ? 0 : 1);
  return new RegExp(`^[a-z]{${Math.max(local, local + 5 - letters)}}${domain}${literal(kept)}$`);
}

function digitsPattern(settings: KindSettings, value: string): RegExp {
  const { keep_first: first, keep_last: last, begins_with: begin } = settings;
  const alnum = [...value].flatMap((character, i) => (/[0-9A-Za-z]/.test(character) ? [i] : []));
  const parts = [...value].map((character, i) => {
    const k = alnum.indexOf(i);
    if (k === -1) return literal(/[\t\p{Zs}]/u.test(character) ? ' ' : character);
    if (settings.check_digits === 'mod97' && (k === 2 || k === 3)) return '[0-9]';
    if (k >= alnum.length - last || k < first) return literal(character);
    if (k < begin.length) return literal(begin[k]!);
    return /\d/.test(character) ? '[0-9]' : /[a-z]/.test(character) ? '[a-z]' : '[A-Z]';
  });
  const drawn = [...parts.keys()].filter((i) => parts[i]!.startsWith('['));
  // The check digit of Luhn is the last digit that is not kept, and does not grow.
  const grown = drawn.at(settings.check_digits === 'luhn' ? -2 : -1);
  const mayGrow = settings.suffix && first + last === 0;
  return new RegExp(
    `^${parts.map((part, i) => (i === grown && mayGrow ? `${part}+` : part)).join('')}$`,
  );
}

function datePattern({ keep }: KindSettings, value: string): RegExp {
  const [, date, time = ''] = /^([^T ]+)(.*)$/.exec(value)!;
  const isUnpadded = /(^|[-/.])\d([-/.]|$)/.test(date!);
  const isShort = !/\d{4}/.test(date!);
  const drawn = date!.replace(/\d+/g, (part) => {
    if (part.length >= 4) return `\\d{${part.length}}`;
    return isUnpadded ? '\\d{1,2}' : '\\d{2}';
  });
  const clock = time.replace(/^(.*?)([Z+-].*)?$/, (_, digits: string, zone = '') => {
    return digits.replace(/\d|[^\d]/g, (c) => (/\d/.test(c) ? '\\d' : literal(c))) + literal(zone);
  });
  const letters = keep === 'year' ? '_[a-z]{3}' : isShort ? '_[a-z]{2}' : '';
  return new RegExp(`^${drawn.replaceAll('.', '\\.')}${clock}${letters}$`);
}

function literal(text: string): string {
  return text.replace(
    /[^0-9A-Za-z]/g,
    (c) => `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
}

/** How many stems the kind can draw for a value whose first stem is this one; at least. */
export function possibilities(settings: KindSettings, value: string, stem: string): number {
  const { shape, keep, keep_first: first, keep_last: last, begins_with: begin } = settings;
  if (shape === 'uuid') return 2 ** 122;
  if (shape === 'date') return datePossibilities(settings, value, stem);
  const drawn =
    shape === 'email' && keep !== 'nothing'
      ? stem.slice(0, stem.lastIndexOf(keep === 'domain' ? '@' : '.'))
      : stem;
  const choices = [...drawn].flatMap((c) => (/[a-zA-Z]/.test(c) ? [26] : /\d/.test(c) ? [10] : []));
  const product = (numbers: number[]) => numbers.reduce((a, b) => a * b, 1);
  if (shape !== 'digits') return product(choices);
  if (settings.check_digits === 'mod97') choices.splice(2, 2, 1, 1);
  choices.splice(0, Math.max(first, begin.length), ...Array(Math.max(first, begin.length)).fill(1));
  if (last > 0) choices.splice(-last);
  return product(choices) / (settings.check_digits === 'luhn' ? 10 : 1);
}

function datePossibilities({ keep }: KindSettings, value: string, stem: string): number {
  const letters = 26 ** (/_([a-z]+)$/.exec(stem)?.[1]?.length ?? 0);
  const years = keep === 'year' ? 1 : /\d{4}/.test(value) ? 9000 : 100;
  return orders(value).length > 1 && years === 100
    ? 12 * 12 * 12 * letters
    : years * letters * (orders(value).length > 1 ? 144 : 365);
}

type Parts = readonly [year: string, month: string, day: string];

/** All readings of a date: year, month, day. */
export function orders(value: string): Parts[] {
  const [date] = /^[^T ]+/.exec(value) ?? [''];
  const joined = /^\d{8}$/.test(date);
  const cut = (a: number, b: number) => [date.slice(0, a), date.slice(a, b), date.slice(b)];
  const parts = joined ? cut(4, 6) : date.split(/[-/.]/);
  const iso = isRealDate(parts[0]!, parts[1]!, parts[2]!);
  const yearFirst: Parts[] = iso ? [parts as never] : [];
  if (joined && iso) return yearFirst;
  const [a, b, year] = joined ? cut(2, 4) : parts;
  return [
    ...yearFirst,
    ...(
      [
        [year!, b!, a!],
        [year!, a!, b!],
      ] as Parts[]
    ).filter((one) => isRealDate(...one)),
  ];
}

/** As the calendar of the system says. */
function isRealDate(year: string, month: string, day: string): boolean {
  if (!/^(\d{2}|[1-9]\d{3})$/.test(year) || !/^\d{1,2}$/.test(month) || !/^\d{1,2}$/.test(day))
    return false;
  const full = year.length === 2 ? 2000 + Number(year) : Number(year);
  const date = new Date(Date.UTC(full, Number(month) - 1, Number(day)));
  return date.getUTCMonth() === Number(month) - 1 && date.getUTCDate() === Number(day);
}

/** ISO/IEC 7812-1, annex B, as the standard tells it: from the right, every second digit doubled. */
export function passesLuhn(text: string): boolean {
  const digits = [...text.replace(/\D/g, '')].reverse().map(Number);
  const sum = digits.flatMap((d, i) => (i % 2 === 1 ? [...String(2 * d)].map(Number) : [d]));
  return sum.reduce((a, b) => a + b, 0) % 10 === 0;
}

/** ISO 13616: the first four characters to the end, letters as numbers, modulo 97 is 1. */
export function passesMod97(text: string): boolean {
  const alnum = text.replace(/[^0-9A-Za-z]/g, '').toUpperCase();
  const number = (alnum.slice(4) + alnum.slice(0, 4)).replace(/[A-Z]/g, (c) =>
    String(Number.parseInt(c, 36)),
  );
  return BigInt(number) % 97n === 1n;
}
