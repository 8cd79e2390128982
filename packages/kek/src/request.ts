import { type IncomingHttpHeaders, type RequestOptions, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { KEK_ATTEMPTS, KekError, type KekTimeouts } from './source.ts';

/** Pause after the first attempt; each further pause is four times as long. */
const PAUSE_MS = 200;
const MAX_ANSWER_BYTES = 65_536;

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** There was no answer. */
export class Unreachable extends Error {
  /** An errno name, a code of TLS, or words. */
  readonly code: string;

  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

/** The end of all requests of one read. */
export interface Deadline {
  /** A performance.now() time. */
  readonly atMs: number;
  readonly attemptMs: number;
}

export function deadlineOf({ totalMs, attemptMs }: KekTimeouts): Deadline {
  return { atMs: performance.now() + totalMs, attemptMs };
}

/**
 * Sends the request again while the network or the server fails, until the time is up. Follows no
 * redirect.
 * @throws Unreachable
 */
export async function ask(
  url: URL,
  options: RequestOptions,
  body: string,
  { atMs, attemptMs }: Deadline,
): Promise<Answer> {
  for (let attempt = 1; ; attempt++) {
    const leftMs = Math.max(1, Math.ceil(atMs - performance.now()));
    const signal = AbortSignal.timeout(Math.min(attemptMs, leftMs));
    const pauseMs = PAUSE_MS * 4 ** (attempt - 1);
    const isLast = () => attempt === KEK_ATTEMPTS || performance.now() + pauseMs >= atMs;
    try {
      const answer = await exchange(url, { ...options, signal, agent: false }, body);
      const isFailure = answer.status >= 500 || answer.status === 429;
      if (!isFailure || isLast()) return answer;
    } catch (error) {
      if (isLast()) throw new Unreachable(codeOf(signal.aborted, error));
    }
    await sleep(pauseMs);
  }
}

function exchange(url: URL, options: RequestOptions, body: string): Promise<Answer> {
  const start = url.protocol === 'https:' ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    const request = start(url, options, (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes > MAX_ANSWER_BYTES) request.destroy(new Error('the answer is too long'));
      });
      response.on('error', reject);
      response.on('end', () => {
        const { statusCode: status = 0, headers } = response;
        resolve({ status, headers, body: Buffer.concat(chunks) });
      });
    });
    request.on('error', reject);
    request.end(body);
  });
}

function codeOf(isLate: boolean, error: unknown): string {
  return isLate ? 'no answer in time' : ((error as NodeJS.ErrnoException).code ?? 'failed');
}

/** A request to a server of a cloud, which answers 200 with a JSON object. */
interface CloudRequest {
  /** Server in words, for messages. */
  readonly server: string;
  /** The setting that names the server. */
  readonly setting: string;
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  /** undefined: GET. */
  readonly body?: string;
  /** What to do, by status. The error texts of the server are never shown. */
  readonly remedies: Readonly<Record<number, string>>;
}

/**
 * A text of the answer.
 * @throws KekError
 */
export async function askCloud(
  { server, setting, url, headers, body, remedies }: CloudRequest,
  field: string,
  deadline: Deadline,
): Promise<{ text: string; answer: Record<string, unknown>; headers: IncomingHttpHeaders }> {
  const method = body === undefined ? 'GET' : 'POST';
  const options = { method, ...(headers && { headers }) };
  const { origin } = url;
  const reply = await ask(url, options, body ?? '', deadline).catch((error) => {
    throw new KekError(
      `${server} cannot be reached at ${origin} (${(error as Unreachable).code}). Check ${setting} and the network, and start again.`,
    );
  });
  const { status } = reply;
  if (status !== 200) {
    const remedy = remedies[status] ?? `Check ${setting}, and start again.`;
    throw new KekError(`${server} at ${origin} refused the request (status ${status}). ${remedy}`);
  }
  const answer = objectOf(reply.body);
  const text = answer[field];
  if (typeof text === 'string' && text !== '') return { text, answer, headers: reply.headers };
  throw new KekError(
    `${server} at ${origin} answered 200 without ${field}: check ${setting}, and start again.`,
  );
}

/** Empty for what is not a JSON object. */
export function objectOf(body: Buffer): Record<string, unknown> {
  try {
    return JSON.parse(body.toString()) ?? {};
  } catch {
    // The text of the parse error would contain the answer.
    return {};
  }
}
