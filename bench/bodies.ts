/** The texts of a record, in the order of its fields. */
export type Texts = readonly string[];

/** The fields of the records, and the kinds that a policy gives them. */
export const FIELDS = { email: 'mail', name: 'text', phone: 'phone' } as const;
/** More fields, for the loads about policies. */
export const WIDE_FIELDS = {
  ...FIELDS,
  ...{ street: 'text', city: 'text', company: 'text', iban: 'text', second: 'text' },
  ...{ fax: 'phone', note: 'text' },
} as const;
export const VALUES_PER_RECORD = Object.keys(FIELDS).length;

/** The records from this number on. A record is unique to its number. */
export function freshRecords(from: number, count: number, isWide = false): Texts[] {
  return Array.from({ length: count }, (_, i) => freshRecord(from + i, isWide));
}

export function freshRecord(number: number, isWide: boolean): Texts {
  const name = letters(number);
  const digits = String(number).padStart(10, '0');
  const texts = [`${name}@example.com`, `Ann ${name}`, `+49 151 ${digits}`];
  if (isWide) texts.push(`${name} Street 12`, `Berlin ${name}`, `${name} GmbH`);
  if (isWide)
    texts.push(`DE12 3704 0044 ${digits}`, `Bo ${name}`, `+49 30 ${digits}`, `call ${name}`);
  return texts;
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
