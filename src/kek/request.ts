import { once } from 'node:events';
import { type IncomingMessage, type RequestOptions, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { OperatorError } from '../errors.ts';
import { KEK_ATTEMPTS, type KekTimeouts } from './source.ts';

/** Pause after the first attempt; each further pause is four times as long. */
const PAUSE_MS = 200;
const MAX_RESPONSE_BYTES = 65_536;
const LATE = { code: 'no response in time' };

/** A request to a key service, which responds with a JSON object. */
interface KeyRequest {
  /** Server in words, for messages. */
  readonly server: string;
  /** The setting that names the server. */
  readonly setting: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: object;
  /** In PEM; undefined: the authorities of Node. */
  readonly ca?: string | undefined;
  /**
   * Remedies by status or by its first digit; 0: the certificate is not trusted. The error texts
   * of the server are never shown.
   */
  readonly remedies: Readonly<Record<number, string>>;
}

/**
 * Asks a key service for a key. Sends the request again while the network or the server fails,
 * until the time is up. Follows no redirect.
 * @param find finds the text of the key in the parsed body of a 200
 * @throws OperatorError
 */
export async function requestKey<T>(
  { server, setting, url, headers, body, ca, remedies }: KeyRequest,
  timeouts: KekTimeouts,
  find: (body: T) => unknown,
): Promise<{ key: string; body: T }> {
  const text = JSON.stringify(body);
  const length = String(Buffer.byteLength(text));
  const options: RequestOptions = {
    ...{ method: 'POST', agent: false, ...(ca && { ca }) },
    headers: { ...headers, 'content-type': 'application/json', 'content-length': length },
  };
  const { origin } = new URL(url);
  const check = `Check ${setting} and the network, and start again.`;
  const response = await attempts(new URL(url), options, text, timeouts).catch((error) => {
    const { code = 'failed' } = error as NodeJS.ErrnoException;
    const isUntrusted = /CERT|ERR_TLS|ISSUER|SIGNED|VERIFY/.test(code);
    throw new OperatorError(
      `${server} cannot be reached at ${origin} (${code}). ${(isUntrusted && remedies[0]) || check}`,
    );
  });
  const { status } = response;
  if (status !== 200) {
    throw new OperatorError(
      `${server} at ${origin} did not decrypt the key-encryption key (status ${status}). ${remedies[status] ?? remedies[Math.trunc(status / 100)] ?? check}`,
    );
  }
  return found(response.body, find, `${server} at ${origin} responded without a key. ${check}`);
}

function found<T>(json: Buffer, find: (body: T) => unknown, problem: string) {
  try {
    const body: T = JSON.parse(json.toString());
    const key = find(body);
    if (typeof key === 'string') return { key, body };
  } catch {
    // The text of the error would contain the response.
  }
  throw new OperatorError(problem);
}

async function attempts(
  url: URL,
  options: RequestOptions,
  body: string,
  { totalMs, attemptMs }: KekTimeouts,
) {
  const endMs = performance.now() + totalMs;
  for (let attempt = 1; ; attempt++) {
    const leftMs = Math.max(1, Math.ceil(endMs - performance.now()));
    const signal = AbortSignal.timeout(Math.min(attemptMs, leftMs));
    const pauseMs = PAUSE_MS * 4 ** (attempt - 1);
    const isLast = () => attempt === KEK_ATTEMPTS || performance.now() + pauseMs >= endMs;
    try {
      const response = await exchange(url, { ...options, signal }, body);
      const isFailure = response.status >= 500 || response.status === 429;
      if (!isFailure || isLast()) return response;
    } catch (error) {
      if (isLast()) throw signal.aborted ? Object.assign(new Error(), LATE) : error;
    }
    await sleep(pauseMs);
  }
}

async function exchange(url: URL, options: RequestOptions, body: string) {
  const request = (url.protocol === 'https:' ? requestHttps : requestHttp)(url, options);
  // After the response, the same errors end the loop below.
  request.on('error', () => {}).end(body);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > MAX_RESPONSE_BYTES) throw new Error('the response is too long');
  }
  return { status: response.statusCode ?? 0, body: Buffer.concat(chunks) };
}
