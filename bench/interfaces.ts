import { setTimeout as sleep } from 'node:timers/promises';

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
function freshRecord(number: number, isWide: boolean): Texts {
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

export type Operation = 'tokenize' | 'detokenize';

/**
 * An interface, in terms of the benchmark: how the generator asks and checks. It joins texts for all,
 * and looks for texts in the answers of all: parsing would take time on the processors that the
 * products run on.
 */
interface Interface {
  /** The header with the secret. */
  secret(apiKey: string): readonly [name: string, value: string];
  path(operation: Operation): string;
  /** The body of a request. All texts are ASCII without quotes. */
  body(operation: Operation, records: readonly Texts[]): string;
  /** What a right answer for a record contains. */
  expected(texts: Texts): string[];
  /** What every right answer to tokenize contains. */
  readonly mark: string;
  /** All texts of a parsed answer, in the order of the request. */
  texts(operation: Operation, answer: any): string[];
}

const NAMES = Object.keys(FIELDS);

function record(texts: Texts): string {
  if (texts.length === VALUES_PER_RECORD)
    return `{"email":"${texts[0]}","name":"${texts[1]}","phone":"${texts[2]}"}`;
  return `{${texts.map((text, i) => `"${NAMES[i]}":"${text}"`).join(',')}}`;
}

const plain = (text: string) => `"plaintext":"${Buffer.from(text, 'latin1').toString('base64')}"`;

export const INTERFACES = {
  standin: {
    secret: (apiKey) => ['authorization', `Bearer ${apiKey}`],
    path: (operation) => `/api/v1/${operation}`,
    body: (_, records) =>
      records.length === 1
        ? `{"data":${record(records[0]!)}}`
        : `{"data":{"records":[${records.map(record).join(',')}]}}`,
    expected: (texts) => [record(texts)],
    mark: '{"data":{',
    texts: (_, { data }) => (data.records ?? [data]).flatMap(Object.values),
  },
  openbao: {
    secret: (apiKey) => ['x-vault-token', apiKey],
    path: (operation) => `/v1/transit/${operation === 'tokenize' ? 'encrypt' : 'decrypt'}/bench`,
    body: (operation, records) => {
      const member = operation === 'tokenize' ? plain : (text: string) => `"ciphertext":"${text}"`;
      const items = records.map((texts) => texts.map((text) => `{${member(text)}}`).join(','));
      return `{"batch_input":[${items.join(',')}]}`;
    },
    expected: (texts) => texts.map(plain),
    mark: '"ciphertext":"vault:v1:',
    texts: (operation, { data }) =>
      data.batch_results.map(({ ciphertext, plaintext }: any) =>
        operation === 'tokenize' ? ciphertext : Buffer.from(plaintext, 'base64').toString(),
      ),
  },
} as const satisfies Record<string, Interface>;

/** Where a request goes to, and the secret for it. */
export interface Target {
  readonly speaks: keyof typeof INTERFACES;
  readonly url: string;
  readonly apiKey: string;
}

/** A busy machine sheds a request, or answers too late. */
const TRIES = 20;
const PAUSE_MS = 500;

/** Sends a request of the preparation, again while the machine is busy. */
export async function post(target: Target, path: string, body: string): Promise<any> {
  const [secret, value] = INTERFACES[target.speaks].secret(target.apiKey);
  const headers = { [secret]: value, 'content-type': 'application/json' };
  for (let left = TRIES; ; left--) {
    const response = await fetch(target.url + path, { method: 'POST', headers, body });
    const text = await response.text();
    if (response.ok) return text === '' ? {} : JSON.parse(text);
    if (left === 0 || (response.status < 500 && response.status !== 408))
      throw new Error(`${path} answered ${response.status}: ${text}`);
    await sleep(PAUSE_MS);
  }
}
