import { once } from 'node:events';
import {
  createServer,
  type Server as HttpServer,
  type IncomingMessage,
  type ServerOptions,
  type ServerResponse,
} from 'node:http';
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
  readonly #server: HttpServer;
  #port = 0;

  constructor(
    answer: (request: IncomingMessage, response: ServerResponse) => unknown,
    options: ServerOptions = {},
  ) {
    this.#server = createServer(options, (request, response) => void answer(request, response));
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Calls `onSocket` with each connection. */
  onConnection(onSocket: (socket: Socket) => void): void {
    this.#server.on('connection', onSocket);
  }

  async open(): Promise<this> {
    this.#port = await listen(this.#server, this.#port);
    return this;
  }

  /** Also cuts all connections. */
  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
