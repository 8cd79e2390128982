import { once } from 'node:events';
import {
  createServer,
  type Server as HttpServer,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import {
  createServer as createTlsServer,
  type ServerOptions as TlsServerOptions,
} from 'node:https';
import {
  type AddressInfo,
  createServer as createTcpServer,
  type Server,
  type Socket,
} from 'node:net';
import { onTestFinished } from 'vitest';

/** Listens on the loopback address; resolves to the port. */
export async function listen(server: Server, port = 0): Promise<number> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** The port of a TCP server that closes with the test. */
export async function tcpServer(onSocket: (socket: Socket) => void = () => {}): Promise<number> {
  const server = createTcpServer(onSocket);
  onTestFinished(() => void server.close());
  return listen(server);
}

/** A server of HTTP that stands in for another one. Its port stays the same. */
export class StandIn {
  protected readonly server: HttpServer;
  readonly #scheme: string;
  #port = 0;

  /** @param options with `key` and `cert`, it speaks TLS */
  constructor(
    answer: (request: IncomingMessage, response: ServerResponse) => unknown,
    options: TlsServerOptions = {},
  ) {
    const isTls = options.key !== undefined;
    this.server = isTls ? createTlsServer(options) : createServer(options);
    this.server.on('request', async (request, response) => {
      try {
        await answer(request, response);
      } catch (error) {
        // A caller that leaves in the middle of its body is no failure.
        if (error !== request.errored) throw error;
      }
    });
    this.#scheme = isTls ? 'https' : 'http';
  }

  get url(): string {
    return `${this.#scheme}://127.0.0.1:${this.#port}`;
  }

  async open(): Promise<this> {
    this.#port = await listen(this.server, this.#port);
    return this;
  }

  /** Also cuts all connections. */
  stop(): void {
    this.server.close();
    this.server.closeAllConnections();
  }
}
