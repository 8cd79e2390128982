import { type Texts, WIDE_FIELDS } from './bodies.ts';

/** The interfaces of Standin and of other open products, in terms of the benchmark. */
export const PEERS = ['openbao', 'secrets'] as const;
export type PeerName = (typeof PEERS)[number];
export type Operation = 'tokenize' | 'detokenize';

/**
 * How the generator asks and checks. It joins texts for all, and looks for texts in the answers of
 * all: parsing would take time on the processors that the products run on.
 */
interface Adapter {
  readonly secretHeader: string;
  path(operation: Operation): string;
  /** The body of a request. All texts are ASCII without quotes. */
  body(operation: Operation, records: readonly Texts[]): string;
  /** What a right answer for a record contains. */
  expected(operation: Operation, texts: Texts): string[];
  /** What every right answer contains. */
  readonly mark: Readonly<Record<Operation, string>>;
  /** All texts of a parsed answer, in the order of the request. */
  texts(operation: Operation, body: any): string[];
}

const NAMES = Object.keys(WIDE_FIELDS);

function record(texts: Texts): string {
  if (texts.length === 3)
    return `{"email":"${texts[0]}","name":"${texts[1]}","phone":"${texts[2]}"}`;
  return `{${texts.map((text, i) => `"${NAMES[i]}":"${text}"`).join(',')}}`;
}

const STANDIN: Adapter = {
  secretHeader: 'Authorization: Bearer ',
  path: (operation) => `/api/v1/${operation}`,
  body: (_, records) =>
    records.length === 1
      ? `{"data":${record(records[0]!)}}`
      : `{"data":{"records":[${records.map(record).join(',')}]}}`,
  expected: (_, texts) => [record(texts)],
  mark: { tokenize: '{"data":{', detokenize: '{"data":{' },
  texts: (_, { data }) => (data.records ?? [data]).flatMap(Object.values),
};

const encoded = (text: string) => Buffer.from(text, 'latin1').toString('base64');
const decoded = (base64: string) => Buffer.from(base64, 'base64').toString();
const joined = (records: readonly Texts[], item: (text: string) => string) =>
  records.map((texts) => texts.map(item).join(',')).join(',');
const plain = (text: string) => `"plaintext":"${encoded(text)}"`;

interface Peer extends Adapter {
  readonly title: string;
  /** Differences from Standin, because rows of one table suggest that both do the same. */
  readonly note: string;
}

export const ADAPTERS: Record<PeerName, Peer> = {
  openbao: {
    title: 'OpenBao transit',
    note: 'stores nothing: the caller keeps three ciphertexts (aes256-gcm96), new ones each time. No database and no fsync is in its figures.',
    secretHeader: 'X-Vault-Token: ',
    path: (operation) => `/v1/transit/${operation === 'tokenize' ? 'encrypt' : 'decrypt'}/bench`,
    body: (operation, records) => {
      const isNew = operation === 'tokenize';
      const item = (text: string) => (isNew ? `{${plain(text)}}` : `{"ciphertext":"${text}"}`);
      return `{"batch_input":[${joined(records, item)}]}`;
    },
    expected: (_, texts) => texts.map(plain),
    mark: { tokenize: '"ciphertext":"vault:v1:', detokenize: '"plaintext":"' },
    texts: (operation, { data }) =>
      data.batch_results.map(({ ciphertext, plaintext }: any) =>
        operation === 'tokenize' ? ciphertext : decoded(plaintext),
      ),
  },
  secrets: {
    title: 'Secrets on PostgreSQL',
    note: 'makes deterministic tokens of letters and digits in the length of the value, in the batch interface. It runs several statements a value, and writes a signed audit record a request. Its rate limit is off, like that of Standin.',
    secretHeader: 'Authorization: Bearer ',
    path: (operation) =>
      operation === 'tokenize'
        ? '/v1/tokenization/keys/bench/tokenize-batch'
        : '/v1/tokenization/detokenize-batch',
    body: (operation, records) =>
      operation === 'tokenize'
        ? `{"items":[${joined(records, (text) => `{${plain(text)}}`)}]}`
        : `{"tokens":[${joined(records, (text) => `"${text}"`)}]}`,
    expected: (_, texts) => texts.map(plain),
    mark: { tokenize: '"token":"', detokenize: '"plaintext":"' },
    texts: (operation, { items }) =>
      items.map(({ token, plaintext }: any) =>
        operation === 'tokenize' ? token : decoded(plaintext),
      ),
  },
};

/** @param peer undefined: Standin's interface */
export function adapterOf(peer: PeerName | undefined): Adapter {
  return peer === undefined ? STANDIN : ADAPTERS[peer];
}

/** An interface that a request goes to, and the secret for it. */
export interface Target {
  readonly peer: PeerName | undefined;
  readonly apiKey: string;
}

/** The bytes of a request before the length of its body. */
export function requestHead({ peer, apiKey }: Target, operation: Operation): string {
  const { path, secretHeader } = adapterOf(peer);
  return `POST ${path(operation)} HTTP/1.1\r\nHost: bench\r\n${secretHeader}${apiKey}\r\nContent-Type: application/json\r\nContent-Length: `;
}

export function isSuccess(peer: PeerName | undefined, status: number): boolean {
  return status === 200 || (peer !== undefined && status === 201);
}

/** An argument without the folder of the program, which tells nothing. */
export function withoutFolder(arg: string): string {
  const isPeer = PEERS.some((peer) => arg.replace(/^--peer=/, '').startsWith(`${peer}=`));
  return isPeer ? arg.replace(/=[^=]*\//, '=') : arg;
}

/** Remarks about the other products, and the names of absent ones. */
export function peersSection(measured: readonly string[]): string {
  const lines = PEERS.map((name) => {
    const { title, note } = ADAPTERS[name];
    return measured.includes(name)
      ? `- ${title}: ${note}`
      : `- ${title} is not in this run: \`--peer ${name}=FILE\` names its program.`;
  });
  return `## Other products\n\nThey are Go programs on all cores, asked in their own interfaces and checked like the others.\n\n${lines.join('\n')}`;
}
