/** The texts of a record, in the order of its fields. */
export type Texts = readonly string[];

/** The fields of the records, and the kinds that a policy gives them. Most records have three. */
export const FIELDS = {
  ...{ email: 'mail', name: 'text', phone: 'phone', street: 'text', city: 'text', fax: 'phone' },
  ...{ company: 'text', iban: 'text', second: 'text', note: 'text' },
} as const;
export const VALUES_PER_RECORD = 3;

/** The records from this number on. A record is unique to its number. */
export function freshRecords(from: number, count: number, isWide: boolean): Texts[] {
  return Array.from({ length: count }, (_, i) => freshRecord(from + i, isWide));
}

/** @param isWide whether it has all ten fields */
export function freshRecord(number: number, isWide: boolean): Texts {
  const name = letters(number);
  const digits = String(number).padStart(10, '0');
  const texts = [`${name}@example.com`, `Ann ${name}`, `+49 151 ${digits}`];
  if (!isWide) return texts;
  const place = [`${name} Street 12`, `Berlin ${name}`, `+49 30 ${digits}`, `${name} GmbH`];
  return [...texts, ...place, `DE12 3704 0044 ${digits}`, `Bo ${name}`, `call ${name}`];
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
