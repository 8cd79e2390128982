import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

interface Message {
  readonly role: string;
  readonly content: string;
}

/**
 * An OpenAI-compatible API whose answers stream: a text made of the messages, in pieces of
 * `pieceLength` characters. It keeps every byte that reaches it.
 */
export class ModelApi {
  /** The conversations so far. */
  readonly asked: Message[][] = [];
  /** The answers so far. */
  readonly answered: string[] = [];
  pieceLength = 5;
  readonly #server: Server;
  #received = '';

  private constructor(server: Server) {
    this.#server = server;
  }

  /** @param answer what the model says */
  static async start(answer: (messages: readonly Message[]) => string): Promise<ModelApi> {
    const server = createServer();
    const itself = new ModelApi(server);
    server.on('connection', (socket) =>
      socket.on('data', (bytes: Buffer) => {
        itself.#received += bytes.toString('latin1');
      }),
    );
    server.on('request', async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk);
      const { messages, stream } = JSON.parse(Buffer.concat(chunks).toString());
      if (request.url !== '/v1/chat/completions' || stream !== true)
        return void response.writeHead(404).end();
      itself.asked.push(messages);
      itself.answered.push(answer(messages));
      itself.#stream(itself.answered.at(-1)!, response);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return itself;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Everything that reached it, decoded as far as a reader could: JSON escapes, UTF-8. */
  received(): string {
    const text = Buffer.from(this.#received, 'latin1').toString();
    return text.replace(/\\u([0-9a-f]{4})/gi, (_, hex) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #stream(text: string, response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const write = (delta: object) =>
      response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`);
    write({ role: 'assistant', content: '' });
    const points = [...text];
    for (let at = 0; at < points.length; at += this.pieceLength)
      write({ content: points.slice(at, at + this.pieceLength).join('') });
    write({});
    response.end('data: [DONE]\n\n');
  }
}
