import { FIELDS, type Texts, VALUES_PER_RECORD } from './bodies.ts';

export type Operation = 'tokenize' | 'detokenize';

/**
 * An interface, in terms of the benchmark: how the generator asks and checks. It joins texts for all,
 * and looks for texts in the answers of all: parsing would take time on the processors that the
 * products run on.
 */
interface Interface {
  /** A header's name, and its value before the secret. */
  readonly secret: readonly [name: string, prefix: string];
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
    secret: ['authorization', 'Bearer '],
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
    secret: ['x-vault-token', ''],
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

/** The headers of a request that say what it is. */
export function headersOf({ speaks, apiKey }: Target): Record<string, string> {
  const [name, prefix] = INTERFACES[speaks].secret;
  return { [name]: `${prefix}${apiKey}`, 'content-type': 'application/json' };
}

/** A busy machine sheds a request, or answers too late. */
const TRIES = 20;
const PAUSE_MS = 500;

/** Sends a request of the preparation, again while the machine is busy. */
export async function post(
  url: string,
  headers: Record<string, string>,
  body: string,
): Promise<any> {
  for (let left = TRIES; ; left--) {
    const response = await fetch(url, { method: 'POST', headers, body });
    const text = await response.text();
    if (response.ok) return text === '' ? {} : JSON.parse(text);
    if (left === 0 || (response.status < 500 && response.status !== 408))
      throw new Error(`${url} answered ${response.status}: ${text}`);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}
