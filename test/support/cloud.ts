import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect, type Socket } from 'node:net';

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Answer {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Record<string, string>;
}

/** `cut short`: the headers promise more bytes than come. */
export type Fault = 'hang up' | 'be silent' | 'cut short' | Answer;

/** A server of a cloud or a key service. A subclass answers. */
export abstract class CloudStandIn {
  readonly asked: Asked[] = [];
  /** Faults that replace answers to paths with a text, one for each request. */
  readonly faults: { readonly path: string; readonly fault: Fault }[] = [];
  readonly #server: Server;
  readonly #scheme: string;

  /** @param tls key and certificate; undefined: HTTP */
  constructor(tls?: { readonly key: Buffer; readonly cert: Buffer }) {
    this.#server = tls === undefined ? createServer() : createTlsServer(tls);
    this.#scheme = tls === undefined ? 'http' : 'https';
  }

  async listen(): Promise<this> {
    this.#server.on('request', async (request: IncomingMessage, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk);
      const { method = '', url: path = '', headers } = request;
      const asked = { method, path, headers, body: Buffer.concat(chunks).toString() };
      this.asked.push(asked);
      const fault = this.#faultOf(path);
      if (fault === 'be silent') return;
      if (fault === 'hang up') return void request.socket.destroy();
      const answer = typeof fault === 'object' ? fault : await this.answer(asked);
      const text = typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body);
      const extra = fault === 'cut short' ? { 'content-length': `${text.length}` } : {};
      response.writeHead(answer.status, { ...this.headers(path), ...extra, ...answer.headers });
      if (fault !== 'cut short') return void response.end(text);
      response.write(text.slice(0, -4), () => request.socket.destroy());
    });
    // A proxy to itself: some libraries ask a fixed host.
    this.#server.on('connect', (_, socket: Socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      const inner = connect((this.#server.address() as AddressInfo).port, '127.0.0.1');
      socket.pipe(inner).pipe(socket);
      for (const end of [socket, inner]) end.on('error', () => socket.destroy());
    });
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return this;
  }

  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get url(): string {
    return `${this.#scheme}://${this.host}`;
  }

  /** Replaces the next answers to paths with a text. */
  fail(path: string, ...faults: Fault[]): void {
    this.faults.push(...faults.map((fault) => ({ path, fault })));
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  protected headers(_path: string): Record<string, string> {
    return { 'content-type': 'application/json' };
  }

  protected abstract answer(asked: Asked): Answer | Promise<Answer>;

  #faultOf(path: string): Fault | undefined {
    const i = this.faults.findIndex((one) => path.includes(one.path));
    return i === -1 ? undefined : this.faults.splice(i, 1)[0]!.fault;
  }
}

/** AES-256-GCM, as key services seal with. Real ciphertexts have other bytes before. */
export class SealingKey {
  readonly #key = randomBytes(32);

  seal(plain: Buffer, context = ''): Buffer {
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce).setAAD(Buffer.from(context));
    const sealed = [nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()];
    // The first byte keeps a short one from being base64.
    return Buffer.concat([Buffer.from([1, 2, 2, 0]), ...sealed]);
  }

  /** undefined: sealed with another key or context, or changed. */
  open(sealed: Buffer, context = ''): Buffer | undefined {
    try {
      const decipher = createDecipheriv('aes-256-gcm', this.#key, sealed.subarray(4, 16));
      decipher.setAAD(Buffer.from(context)).setAuthTag(sealed.subarray(-16));
      return Buffer.concat([decipher.update(sealed.subarray(16, -16)), decipher.final()]);
    } catch {
      return undefined;
    }
  }
}
