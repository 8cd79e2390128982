import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { API_KEY_HEADER, type Operation } from '#console';
import { OpsError } from '../errors.ts';
import { alreadySent, type OpsContext, readJson } from '../web.ts';

/** Longer than the service needs for any response. */
const TIMEOUT_MS = 15_000;
const MAX_UNDER_WAY = 5;
/** The headers that the page gets with the body. */
const PASSED_BACK = ['content-type', 'x-request-id', 'retry-after', 'preference-applied'];

interface ForwarderOptions {
  /** Opens a connection to the public listener, as if from this address. */
  readonly connect: (remoteAddress: string | undefined) => Duplex;
  readonly bodyLimit: number;
  /** Whether callers need a client certificate. */
  readonly asksClients: () => boolean;
}

/**
 * Forwards requests of the console's playground to the public listener, with the API key that the
 * user typed, and returns the responses. Keeps neither.
 */
export class PlaygroundForwarder {
  readonly #options: ForwarderOptions;
  #underWay = 0;

  constructor(options: ForwarderOptions) {
    this.#options = options;
  }

  /** @throws Refusal */
  async forward(operation: Operation, c: OpsContext): Promise<Response> {
    if (this.#options.asksClients()) {
      throw new OpsError(
        409,
        'client_certificate',
        'The playground cannot call the service: callers need a client certificate (TLS_CLIENT_CA_FILE), and the console has none.',
      );
    }
    if (this.#underWay >= MAX_UNDER_WAY) {
      throw new OpsError(503, 'too_many', 'The playground is busy. Try again in a moment.');
    }
    this.#underWay++;
    try {
      const { incoming, outgoing } = c.env;
      const body = await readJson(incoming, this.#options.bodyLimit);
      const response = await this.#send(operation, body, c);
      for (const name of PASSED_BACK) {
        const value = response.headers[name];
        if (value !== undefined) outgoing.setHeader(name, value);
      }
      await pipeline(response, outgoing.writeHead(response.statusCode!));
      return alreadySent(c);
    } finally {
      this.#underWay--;
    }
  }

  async #send(
    operation: Operation,
    body: Buffer,
    { env: { incoming, outgoing } }: OpsContext,
  ): Promise<IncomingMessage> {
    const expired = AbortSignal.timeout(TIMEOUT_MS);
    const gone = new AbortController();
    outgoing.once('close', () => gone.abort());
    const sent = request({
      createConnection: () => this.#options.connect(incoming.socket.remoteAddress),
      ...{
        method: 'POST',
        path: `/api/v1/${operation}`,
        headers: headersOf(incoming.headers, body),
      },
      signal: AbortSignal.any([expired, gone.signal]),
    });
    try {
      return await new Promise((resolve, reject) => {
        sent.once('response', resolve).on('error', reject).end(body);
      });
    } catch {
      if (expired.aborted)
        throw new OpsError(504, 'timeout', 'The service did not answer in time.');
      throw new OpsError(502, 'unreachable', 'The console cannot reach the public listener.');
    }
  }
}

function headersOf(
  { [API_KEY_HEADER.toLowerCase()]: apiKey = '', prefer }: IncomingHttpHeaders,
  body: Buffer,
) {
  return {
    ...{ Host: 'localhost', 'Content-Type': 'application/json', 'Content-Length': body.length },
    ...(apiKey !== '' && { Authorization: `Bearer ${apiKey}` }),
    ...(prefer !== undefined && { Prefer: prefer }),
  };
}
