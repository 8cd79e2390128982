import type { Operation } from './job.ts';
import type { LoadName } from './loads.ts';

/** The interfaces of Standin and of other open products, in terms of the benchmark. */
export const PEERS = ['openbao', 'secrets'] as const;
export type PeerName = (typeof PEERS)[number];

interface Adapter {
  readonly title: string;
  /** Differences from Standin, because rows of one table suggest that both do the same. */
  readonly note: string;
  /** The loads that this product supports. */
  readonly loads: readonly LoadName[];
  readonly secretHeader: string;
  path(operation: Operation): string;
  /** @param texts values, or tokens from answer() */
  body(operation: Operation, texts: readonly string[]): object;
  /** @returns tokens or values, in the order of the request */
  answer(operation: Operation, body: any): unknown[];
}

export const ADAPTERS: Record<PeerName, Adapter> = {
  openbao: {
    title: 'OpenBao transit',
    note: 'stores nothing: the caller keeps three ciphertexts (aes256-gcm96), new ones each time. No database and no fsync is in its figures.',
    loads: ['tokenize', 'detokenize', 'batch'],
    secretHeader: 'X-Vault-Token: ',
    path: (operation) => `/v1/transit/${operation === 'tokenize' ? 'encrypt' : 'decrypt'}/bench`,
    body: (operation, texts) => ({
      batch_input:
        operation === 'tokenize'
          ? texts.map((text) => ({ plaintext: encoded(text) }))
          : texts.map((ciphertext) => ({ ciphertext })),
    }),
    answer: (operation, { data }) =>
      data.batch_results.map(({ ciphertext, plaintext }: any) =>
        operation === 'tokenize' ? ciphertext : decoded(plaintext),
      ),
  },
  secrets: {
    title: 'Secrets on PostgreSQL',
    note: 'makes deterministic tokens of letters and digits in the length of the value, in the batch interface. It runs several statements a value, and writes a signed audit record a request. Its rate limit is off, like that of Standin.',
    loads: ['tokenize', 'detokenize', 'repeat', 'batch'],
    secretHeader: 'Authorization: Bearer ',
    path: (operation) =>
      operation === 'tokenize'
        ? '/v1/tokenization/keys/bench/tokenize-batch'
        : '/v1/tokenization/detokenize-batch',
    body: (operation, texts) =>
      operation === 'tokenize'
        ? { items: texts.map((text) => ({ plaintext: encoded(text) })) }
        : { tokens: texts },
    answer: (operation, { items }) =>
      items.map(({ token, plaintext }: any) =>
        operation === 'tokenize' ? token : decoded(plaintext),
      ),
  },
};

function encoded(text: string): string {
  return Buffer.from(text).toString('base64');
}

function decoded(base64: string): string {
  return Buffer.from(base64, 'base64').toString();
}

/** An interface that a request goes to, and the secret for it. */
export interface Target {
  readonly peer: PeerName | undefined;
  readonly apiKey: string;
}

/** The bytes of a request. @param data JSON, ASCII only */
export function requestText({ peer, apiKey }: Target, operation: Operation, data: string): string {
  const adapter = peer && ADAPTERS[peer];
  const path = adapter?.path(operation) ?? `/api/v1/${operation}`;
  const secretHeader = adapter?.secretHeader ?? 'Authorization: Bearer ';
  const body =
    adapter === undefined
      ? `{"data":${data}}`
      : JSON.stringify(adapter.body(operation, textsOf(JSON.parse(data))));
  return `POST ${path} HTTP/1.1\r\nHost: bench\r\n${secretHeader}${apiKey}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

/** @returns Standin's form of the body, `{"data":...}`; empty: not a valid answer */
export function answerText(
  { peer }: Target,
  operation: Operation,
  sent: string,
  body: string,
): string {
  if (peer === undefined) return body;
  try {
    const texts = ADAPTERS[peer].answer(operation, JSON.parse(body));
    return JSON.stringify({ data: withTexts(JSON.parse(sent), texts) });
  } catch {
    return '';
  }
}

export function isSuccess(peer: PeerName | undefined, status: number): boolean {
  return status === 200 || (peer !== undefined && status === 201);
}

/** All strings of `data`: of one record, or of a list. */
function textsOf(data: any): string[] {
  return (data.records ?? [data]).flatMap(Object.values);
}

/** The same data with other strings. */
function withTexts(data: any, texts: readonly unknown[]): unknown {
  let next = 0;
  return JSON.parse(JSON.stringify(data), (_, value) =>
    typeof value === 'string' ? texts[next++] : value,
  );
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
