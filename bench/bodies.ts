/** The records of the loads: e-mail, name and phone number, so three values. */
export const VALUES_PER_RECORD = 3;

/** JSON of `data` with records that are unique to their number: a single record, or a list. */
export function freshData(from: number, records: number): string {
  if (records === 1) return record(from);
  return listData(Array.from({ length: records }, (_, i) => from + i));
}

/** JSON of `data` with a list of the records of these numbers. */
export function listData(numbers: readonly number[]): string {
  return `{"records":[${numbers.map(record).join(',')}]}`;
}

function record(number: number): string {
  const name = letters(number);
  const digits = String(number).padStart(10, '0');
  return `{"email":"${name}@example.com","name":"Ann ${name}","phone":"+49 151 ${digits}"}`;
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
