import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';

/** A fault that replaces the service's answer. `cut`: the answer ends in the middle. */
export type Trouble =
  | 'reset'
  | 'cut'
  | 'silence'
  | { readonly status: number; readonly headers?: OutgoingHttpHeaders; readonly body: string };

/** An HTTP proxy that fails as load balancers do. */
export class Front {
  readonly url: string;
  /** Faults of the next requests, in turn. Later requests reach the service. */
  readonly troubles: Trouble[] = [];
  /** The bodies of all requests. */
  readonly bodies: string[] = [];
  /** Running requests, and their maximum so far. */
  open = 0;
  mostOpen = 0;
  readonly #server: Server;
  readonly #target: string;
  readonly #path: string;

  /** @param path what callers write before the paths of the target */
  static async start(target: string, path = ''): Promise<Front> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Front(server, target, path);
  }

  private constructor(server: Server, target: string, path: string) {
    this.#server = server;
    this.#target = target;
    this.#path = path;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on('request', (incoming, outgoing) => void this.#take(incoming, outgoing));
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #take(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    this.mostOpen = Math.max(this.mostOpen, ++this.open);
    outgoing.once('close', () => this.open--);
    const body = Buffer.concat(await incoming.toArray());
    this.bodies.push(body.toString());
    const trouble = this.troubles.shift();
    if (trouble === 'silence') return;
    if (trouble === 'reset') incoming.socket.resetAndDestroy();
    else if (typeof trouble === 'object')
      outgoing.writeHead(trouble.status, trouble.headers).end(trouble.body);
    else this.#pass(incoming, body, outgoing, trouble === 'cut');
  }

  #pass(incoming: IncomingMessage, body: Buffer, outgoing: ServerResponse, isCut: boolean): void {
    const { method = '', url = '', headers } = incoming;
    if (!url.startsWith(this.#path)) return void outgoing.writeHead(404).end();
    const passed = request(
      this.#target + url.slice(this.#path.length),
      { method, headers },
      async (answer) => {
        const bytes = Buffer.concat(await answer.toArray());
        outgoing.writeHead(answer.statusCode!, answer.headers);
        if (isCut) outgoing.write(bytes.subarray(0, -1), () => outgoing.destroy());
        else outgoing.end(bytes);
      },
    );
    passed.on('error', () => outgoing.destroy());
    passed.end(body);
  }
}
