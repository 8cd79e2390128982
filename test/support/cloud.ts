import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
} from 'node:http';
import type { AddressInfo } from 'node:net';

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

/** A server of a cloud. A subclass answers. */
export abstract class CloudStandIn {
  readonly asked: Asked[] = [];
  /** Faults that replace answers to paths with a text, one for each request. */
  readonly faults: { readonly path: string; readonly fault: Fault }[] = [];
  readonly #server: Server = createServer();

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
      const type = { 'content-type': 'application/json' };
      response.writeHead(answer.status, { ...type, ...extra, ...answer.headers });
      if (fault !== 'cut short') return void response.end(text);
      response.write(text.slice(0, -4), () => request.socket.destroy());
    });
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return this;
  }

  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get url(): string {
    return `http://${this.host}`;
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  protected abstract answer(asked: Asked): Answer | Promise<Answer>;

  #faultOf(path: string): Fault | undefined {
    const i = this.faults.findIndex((one) => path.includes(one.path));
    return i === -1 ? undefined : this.faults.splice(i, 1)[0]!.fault;
  }
}
