import { readFileSync } from 'node:fs';
import type { Source } from './job.ts';

/** The records of the loads: e-mail, name and phone number, so three values. */
export const VALUES_PER_RECORD = 3;

/** The records of the loads about policies: more fields, with the kinds that a policy gives them. */
export const WIDE_FIELDS = {
  email: 'mail',
  name: 'text',
  phone: 'phone',
  street: 'text',
  city: 'text',
  company: 'text',
  iban: 'text',
  second: 'text',
  fax: 'phone',
  note: 'text',
} as const;

/** `data` of a request and of its answer, as JSON. */
export interface Request {
  readonly sent: string;
  /** undefined: not known in advance. */
  readonly expected: string | undefined;
}

/** Number of the next fresh record. */
export interface Counter {
  next: number;
}

export function requests(source: Source, counter: Counter): () => Request {
  if (source.kind === 'fresh') {
    return () => {
      const sent = freshData(counter.next, source.records, source.isWide);
      counter.next += source.records;
      return { sent, expected: undefined };
    };
  }
  const pairs = readPairs(source.file);
  return () => pairs[Math.floor(Math.random() * pairs.length)]!;
}

const files = new Map<string, readonly Request[]>();

function readPairs(file: string): readonly Request[] {
  let pairs = files.get(file);
  if (pairs === undefined) {
    const written: [string, string][] = JSON.parse(readFileSync(file, 'latin1'));
    pairs = written.map(([sent, expected]) => ({ sent, expected }));
    files.set(file, pairs);
  }
  return pairs;
}

/** JSON of `data` with records that are unique to their number: a single record, or a list. */
function freshData(from: number, records: number, isWide = false): string {
  if (records === 1) return record(from, isWide);
  const numbers = Array.from({ length: records }, (_, i) => from + i);
  return listData(numbers, isWide);
}

/** JSON of `data` with a list of the records of these numbers. */
export function listData(numbers: readonly number[], isWide: boolean): string {
  return `{"records":[${numbers.map((number) => record(number, isWide)).join(',')}]}`;
}

function record(number: number, isWide: boolean): string {
  const name = letters(number);
  const digits = String(number).padStart(10, '0');
  if (isWide) return JSON.stringify(wideRecord(name, digits));
  return `{"email":"${name}@example.com","name":"Ann ${name}","phone":"+49 151 ${digits}"}`;
}

function wideRecord(name: string, digits: string): Record<keyof typeof WIDE_FIELDS, string> {
  return {
    email: `${name}@example.com`,
    name: `Ann ${name}`,
    phone: `+49 151 ${digits}`,
    street: `${name} Street 12`,
    city: `Berlin ${name}`,
    company: `${name} GmbH`,
    iban: `DE12 3704 0044 ${digits}`,
    second: `Bo ${name}`,
    fax: `+49 30 ${digits}`,
    note: `call ${name}`,
  };
}

const NAME_LETTERS = 8;

/** The number in base 26, as eight lowercase letters. */
function letters(number: number): string {
  let text = '';
  for (let rest = number; text.length < NAME_LETTERS; rest = Math.floor(rest / 26)) {
    text = String.fromCharCode(0x61 + (rest % 26)) + text;
  }
  return text;
}
