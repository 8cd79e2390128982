import type { ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { StandIn } from './stand-in.ts';

interface Message {
  readonly role: string;
  readonly content: string;
}

/**
 * An OpenAI-compatible API whose answers stream: a text made of the messages, in pieces of
 * `pieceLength` characters. It keeps every byte that reaches it.
 */
export class ModelApi extends StandIn {
  /** The conversations so far. */
  readonly asked: Message[][] = [];
  /** The answers so far. */
  readonly answered: string[] = [];
  pieceLength = 5;
  #received = '';

  /** @param answer what the model says */
  static start(answer: (messages: readonly Message[]) => string): Promise<ModelApi> {
    return new ModelApi(answer).open();
  }

  private constructor(answer: (messages: readonly Message[]) => string) {
    super(async (request, response) => {
      const { messages, stream } = JSON.parse(await text(request));
      if (request.url !== '/v1/chat/completions' || stream !== true)
        return response.writeHead(404).end();
      this.asked.push(messages);
      this.answered.push(answer(messages));
      return this.#stream(this.answered.at(-1)!, response);
    });
    this.server.on('connection', (socket) =>
      socket.on('data', (bytes: Buffer) => {
        this.#received += bytes.toString('latin1');
      }),
    );
  }

  /** Everything that reached it, decoded as far as a reader could: JSON escapes, UTF-8. */
  received(): string {
    const received = Buffer.from(this.#received, 'latin1').toString();
    return received.replace(/\\u([0-9a-f]{4})/gi, (_, hex) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
  }

  #stream(said: string, response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const write = (delta: object) =>
      response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`);
    write({ role: 'assistant', content: '' });
    const points = [...said];
    for (let at = 0; at < points.length; at += this.pieceLength)
      write({ content: points.slice(at, at + this.pieceLength).join('') });
    write({});
    response.end('data: [DONE]\n\n');
  }
}
