import {
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as requestInClear,
  type ServerResponse,
} from 'node:http';
import { type RequestOptions, request as requestOverTls } from 'node:https';
import { pipeline } from 'node:stream/promises';
import { API_KEY_HEADER, type Operation } from '#console';
import { Refusal, readJson } from '../server.ts';

/** Longer than the service needs for any answer. */
const TIMEOUT_MS = 15_000;
const MAX_UNDER_WAY = 5;
/** The headers that the page gets with the body. */
const PASSED_BACK = ['content-type', 'x-request-id', 'retry-after', 'preference-applied'];

/** The current certificate of the public listener. */
export interface OwnCertificate {
  /** PEM, with the chain. */
  readonly certificate: string;
  /** The server's own certificate, without the chain. */
  readonly der: Buffer;
  /** Whether callers need a client certificate. */
  readonly asksClients: boolean;
}

interface ForwarderOptions {
  /** Address of the public listener. */
  readonly url: string;
  readonly bodyLimit: number;
  /** undefined: HTTP in clear. */
  readonly certificate: (() => OwnCertificate) | undefined;
}

/**
 * Forwards requests of the console's playground to the public listener, with the API key that the
 * user typed, and returns the answers. Keeps neither.
 */
export class PlaygroundForwarder {
  readonly #url: URL;
  readonly #bodyLimit: number;
  readonly #certificate: (() => OwnCertificate) | undefined;
  #underWay = 0;

  constructor({ url, bodyLimit, certificate }: ForwarderOptions) {
    this.#url = reachable(url);
    this.#bodyLimit = bodyLimit;
    this.#certificate = certificate;
  }

  /** @throws Refusal */
  async forward(
    operation: Operation,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    if (this.#certificate?.().asksClients) {
      throw new Refusal(
        409,
        'client_certificate',
        'The playground cannot call the service: callers need a client certificate (TLS_CLIENT_CA_FILE), and the console has none.',
      );
    }
    if (this.#underWay >= MAX_UNDER_WAY) {
      throw new Refusal(503, 'too_many', 'The playground is busy. Try again in a moment.');
    }
    this.#underWay++;
    try {
      const body = await readJson(request, this.#bodyLimit);
      const answer = await this.#send(operation, body, request.headers, response);
      const headers = PASSED_BACK.flatMap((name) => {
        const value = answer.headers[name];
        return value === undefined ? [] : [[name, value] as const];
      });
      response.writeHead(answer.statusCode!, Object.fromEntries(headers));
      await pipeline(answer, response);
    } finally {
      this.#underWay--;
    }
  }

  async #send(
    operation: string,
    body: Buffer,
    { [API_KEY_HEADER.toLowerCase()]: apiKey = '', prefer }: IncomingHttpHeaders,
    response: ServerResponse,
  ): Promise<IncomingMessage> {
    const givenUp = AbortSignal.timeout(TIMEOUT_MS);
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const sent = this.#request(new URL(`/api/v1/${operation}`, this.#url), {
      method: 'POST',
      signal: AbortSignal.any([givenUp, gone.signal]),
      headers: {
        Host: this.#url.host,
        'Content-Type': 'application/json',
        'Content-Length': body.length,
        ...(apiKey !== '' && { Authorization: `Bearer ${apiKey}` }),
        ...(prefer !== undefined && { Prefer: prefer }),
      },
    });
    try {
      return await new Promise((resolve, reject) => {
        sent.once('response', resolve);
        sent.on('error', reject);
        sent.end(body);
      });
    } catch {
      if (givenUp.aborted) throw new Refusal(504, 'timeout', 'The service did not answer in time.');
      throw new Refusal(502, 'unreachable', 'The console cannot reach the public listener.');
    }
  }

  /** With TLS, accepts exactly the certificate of this service, whatever names it contains. */
  #request(url: URL, options: RequestOptions): ClientRequest {
    const own = this.#certificate?.();
    if (own === undefined) return requestInClear(url, { ...options, agent: false });
    return requestOverTls(url, {
      ...options,
      agent: false,
      ca: own.certificate,
      allowPartialTrustChain: true,
      checkServerIdentity: (_, { raw }) =>
        raw.equals(own.der) ? undefined : new Error('another certificate'),
    });
  }
}

/** A listener on all addresses also listens on the loopback address. */
function reachable(listening: string): URL {
  const url = new URL(listening);
  if (url.hostname === '0.0.0.0') url.hostname = '127.0.0.1';
  if (url.hostname === '[::]') url.hostname = '[::1]';
  return url;
}
