import { VALUES_PER_RECORD } from './bodies.ts';
import type { Operation } from './job.ts';
import type { LoadName } from './loads.ts';

/** Adapters for other open products: their requests and answers, in terms of the benchmark. */
export const PEERS = ['databunker', 'openbao'] as const;
export type PeerName = (typeof PEERS)[number];

/** The loads that these products support. */
export const PEER_LOADS: readonly LoadName[] = ['tokenize', 'detokenize'];

interface PeerRequest {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  /** Name of the header for the secret. */
  readonly secretHeader: string;
  readonly body: string;
}

interface Adapter {
  readonly title: string;
  /** Differences from Standin, because rows of one table suggest that both do the same. */
  readonly note: string;
  /** @param data JSON: a record of values, or of tokens from answer() */
  request(operation: Operation, data: string): PeerRequest;
  /** @returns Standin's form of the answer, `{"data":...}`; undefined: not a valid answer */
  answer(operation: Operation, body: any): { readonly data: unknown } | undefined;
}

const FIELDS = ['email', 'name', 'phone'];

const ADAPTERS: Record<PeerName, Adapter> = {
  databunker: {
    title: 'Databunker on PostgreSQL',
    note: 'stores a whole record under one UUID, without shapes. It first looks for e-mail and phone, writes an audit event a request, and opens connections without bound.',
    request: (operation, data) => ({
      method: operation === 'tokenize' ? 'POST' : 'GET',
      path: operation === 'tokenize' ? '/v1/user' : `/v1/user/token/${JSON.parse(data)}`,
      secretHeader: 'X-Bunker-Token',
      body: operation === 'tokenize' ? data : '',
    }),
    answer: (operation, { token, data }) =>
      operation === 'tokenize' ? token && { data: token } : data && { data },
  },
  openbao: {
    title: 'OpenBao transit',
    note: 'stores nothing: the caller keeps three ciphertexts (aes256-gcm96), new ones each time. No database and no fsync is in its figures.',
    request: (operation, data) => {
      const texts: string[] = Object.values(JSON.parse(data));
      const batchInput =
        operation === 'tokenize'
          ? texts.map((text) => ({ plaintext: Buffer.from(text).toString('base64') }))
          : texts.map((ciphertext) => ({ ciphertext }));
      return {
        method: 'POST',
        path: `/v1/transit/${operation === 'tokenize' ? 'encrypt' : 'decrypt'}/bench`,
        secretHeader: 'X-Vault-Token',
        body: JSON.stringify({ batchInput }),
      };
    },
    answer: (operation, { data }) => {
      const texts = data.batchResults.flatMap(({ ciphertext, plaintext }: any) => {
        const text = operation === 'tokenize' ? ciphertext : decoded(plaintext);
        return text ? [text] : [];
      });
      if (texts.length !== VALUES_PER_RECORD) return undefined;
      return { data: Object.fromEntries(FIELDS.map((field, i) => [field, texts[i]])) };
    },
  },
};

function decoded(base64: string | undefined): string | undefined {
  return base64 && Buffer.from(base64, 'base64').toString();
}

export const PEER_TITLES: Record<PeerName, string> = {
  databunker: ADAPTERS.databunker.title,
  openbao: ADAPTERS.openbao.title,
};

/** An argument without the folder of the program, which tells nothing. */
export function withoutFolder(arg: string): string {
  const name = PEERS.find((peer) => arg.replace(/^--peer=/, '').startsWith(`${peer}=`));
  return name === undefined ? arg : arg.replace(/=[^=]*\//, '=');
}

/** @returns the name if it is one of these products */
export function asPeer(name: string): PeerName | undefined {
  return PEERS.find((peer) => peer === name);
}

/** The bytes of a request. */
export function peerText(
  name: PeerName,
  operation: Operation,
  secret: string,
  data: string,
): string {
  const { method, path, secretHeader, body } = ADAPTERS[name].request(operation, data);
  const head = `${method} ${path} HTTP/1.1\r\nHost: bench\r\n${secretHeader}: ${secret}\r\n`;
  if (method === 'GET') return `${head}\r\n`;
  return `${head}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

/** @returns Standin's form of the body; empty: not a valid answer */
export function peerBody(name: PeerName, operation: Operation, body: string): string {
  try {
    return JSON.stringify(ADAPTERS[name].answer(operation, JSON.parse(body))) ?? '';
  } catch {
    return '';
  }
}

const CALLS_AT_ONCE = 16;

/**
 * Sends one request for each record. Standin does the same in a single request.
 * @returns `data` of the answer
 */
export async function callPeer(
  name: PeerName,
  url: string,
  secret: string,
  operation: Operation,
  data: any,
): Promise<unknown> {
  const call = async (record: unknown) => {
    const request = ADAPTERS[name].request(operation, JSON.stringify(record));
    const response = await fetch(`${url}${request.path}`, {
      method: request.method,
      headers: { [request.secretHeader]: secret, 'content-type': 'application/json' },
      body: request.method === 'GET' ? null : request.body,
    });
    const body = await response.text();
    if (response.status !== 200) throw new Error(`${name} answered ${response.status}: ${body}`);
    const text = peerBody(name, operation, body);
    if (text === '') throw new Error(`${name} answered ${body}`);
    return JSON.parse(text).data;
  };
  if (data.records === undefined) return call(data);
  const records = [];
  for (let from = 0; from < data.records.length; from += CALLS_AT_ONCE) {
    const part = data.records.slice(from, from + CALLS_AT_ONCE);
    records.push(...(await Promise.all(part.map(call))));
  }
  return { records };
}

/** The list of contestants with remarks, and of absent products. */
export function peersSection(measured: readonly string[]): string {
  const lines = PEERS.map((name) => {
    const { title, note } = ADAPTERS[name];
    return measured.includes(name)
      ? `- ${title}: ${note}`
      : `- ${title} is not in this run: \`--peer ${name}=FILE\` names its program.`;
  });
  return `## Other products\n\nThey are Go programs on all cores, asked in their own interfaces and checked like the others.\n\n${lines.join('\n')}`;
}
