import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { StandIn } from './stand-in.ts';

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
export abstract class CloudStandIn extends StandIn {
  readonly asked: Asked[] = [];
  /** Faults that replace answers to paths with a text, one for each request. */
  readonly faults: { readonly path: string; readonly fault: Fault }[] = [];

  /** @param tls key and certificate; undefined: HTTP */
  constructor(tls?: { readonly key: Buffer; readonly cert: Buffer }) {
    super((request, response) => this.#take(request, response), tls);
    // A proxy to itself: some libraries ask a fixed host.
    this.server.on('connect', (_, socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      this.server.emit('connection', socket);
    });
  }

  /** Replaces the next answers to paths with a text. */
  fail(path: string, ...faults: Fault[]): void {
    this.faults.push(...faults.map((fault) => ({ path, fault })));
  }

  protected headers(_path: string): Record<string, string> {
    return { 'content-type': 'application/json' };
  }

  protected abstract answer(asked: Asked): Answer;

  async #take(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
    const { method = '', url: path = '', headers } = request;
    const asked = { method, path, headers, body: await text(request) };
    this.asked.push(asked);
    const i = this.faults.findIndex((one) => path.includes(one.path));
    const fault = i === -1 ? undefined : this.faults.splice(i, 1)[0]!.fault;
    if (fault === 'be silent') return;
    if (fault === 'hang up') return request.socket.destroy();
    const { status, body, ...answer } = typeof fault === 'object' ? fault : this.answer(asked);
    const said = typeof body === 'string' ? body : JSON.stringify(body);
    const extra = fault === 'cut short' ? { 'content-length': `${said.length}` } : {};
    response.writeHead(status, { ...this.headers(path), ...extra, ...answer.headers });
    if (fault !== 'cut short') return response.end(said);
    return response.write(said.slice(0, -4), () => request.socket.destroy());
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
