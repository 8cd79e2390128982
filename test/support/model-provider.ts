import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import { StandIn } from './stand-in.ts';

/** What the model says in one choice. */
export interface Said {
  readonly text?: string;
  /** Calls of tools; the arguments are a JSON text. */
  readonly calls?: readonly { readonly name: string; readonly arguments: string }[];
}

export interface Asked {
  /** `/v1/chat/completions`, without the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: any;
}

/** One for each choice. Only chat completions have several. A number: the status of a failure. */
export type Reply = (asked: Asked) => readonly Said[] | number | Promise<readonly Said[] | number>;

/** Called before each piece of an answer in a stream leaves, with all text that left before. */
export type BeforePiece = (sent: string) => unknown;

interface Event {
  readonly data: object | '[DONE]';
  /** Anthropic and the responses of OpenAI name their events. */
  readonly name?: string;
  /** Text of the model in this event. */
  readonly piece?: string | undefined;
}

/**
 * A provider of language models with the APIs of OpenAI and Anthropic. It keeps every byte that
 * reaches it. Its answers leave in pieces of 1 to 12 bytes, which cut lines and characters.
 */
export class ModelProvider extends StandIn {
  /** The requests so far. */
  readonly asked: Asked[] = [];
  /** Length of the model's own pieces in a stream, in code points. */
  pieceLength = 5;
  beforePiece: BeforePiece = () => {};
  /** The answer ends after so many bytes of a stream, without its end. */
  cutAfterBytes = Infinity;
  reply: Reply;
  readonly #received: Buffer[] = [];

  static start(reply: Reply = echo): Promise<ModelProvider> {
    return new ModelProvider(reply).open();
  }

  private constructor(reply: Reply) {
    super(async (request, response) => {
      const path = request.url!.replace(/\?.*/, '');
      const body = request.method === 'POST' ? JSON.parse(await text(request)) : undefined;
      const asked = { path, headers: request.headers, body };
      this.asked.push(asked);
      await this.#answer(asked, response);
    });
    this.reply = reply;
    this.server.on('connection', (socket) =>
      socket.on('data', (bytes: Buffer) => this.#received.push(bytes)),
    );
  }

  /** Every byte that reached it, decoded as far as a reader could: UTF-8, escapes of JSON. */
  received(): string {
    return Buffer.concat(this.#received)
      .toString()
      .replace(/\\u([0-9a-f]{4})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
      .replaceAll('\\/', '/');
  }

  async #answer(asked: Asked, response: ServerResponse): Promise<void> {
    const form = FORMS[asked.path];
    if (form === undefined) return void response.writeHead(404).end('{"error":{}}');
    const said = await this.reply(asked);
    const id = `request_${this.asked.length}`;
    const headers = { 'x-request-id': id, 'request-id': id, 'set-cookie': 'provider=1' };
    if (typeof said === 'number') {
      const error = { type: 'provider_error', message: `the provider answers ${said}` };
      response.writeHead(said, { ...headers, 'content-type': 'application/json' });
      return void response.end(JSON.stringify({ type: 'error', error }));
    }
    if (asked.body?.stream !== true) {
      response.writeHead(200, { ...headers, 'content-type': 'application/json' });
      await inPieces(JSON.stringify(form.whole(said, asked.body)), response);
      return void response.end();
    }
    response.writeHead(200, { ...headers, 'content-type': 'text/event-stream' });
    let sent = '';
    let leftBytes = this.cutAfterBytes;
    for (const { data, name, piece } of form.events(said, asked.body, this.pieceLength)) {
      if (piece !== undefined) await this.beforePiece(sent);
      sent += piece ?? '';
      const line = typeof data === 'string' ? data : JSON.stringify(data);
      const event = `: ping\n${name === undefined ? '' : `event: ${name}\n`}data: ${line}\n\n`;
      leftBytes = await inPieces(event, response, leftBytes);
      if (leftBytes <= 0) return void response.destroy();
    }
    response.end();
  }
}

/** Answers with the last message, or the whole input. */
export const echo: Reply = ({ body }) => {
  const input = body?.messages?.at(-1)?.content ?? body?.input ?? '';
  return [{ text: typeof input === 'string' ? input : JSON.stringify(input) }];
};

let seed = 1;
/** The length of the next piece: 1 to 12 bytes, the same in each run. */
function nextLength(): number {
  seed = (seed * 48_271) % 2_147_483_647;
  return 1 + (seed % 12);
}

/** Each write is a chunk of HTTP, so its reader gets it by itself. @returns the bytes left */
async function inPieces(body: string, response: ServerResponse, left = Infinity): Promise<number> {
  const bytes = Buffer.from(body).subarray(0, left);
  for (let at = 0; at < bytes.length; ) {
    const end = at + nextLength();
    response.write(bytes.subarray(at, end));
    at = end;
  }
  await setImmediate();
  return left - bytes.length;
}

function piecesOf(said: string, length: number): string[] {
  const points = [...said];
  const count = Math.ceil(points.length / length);
  return Array.from({ length: count }, (_, i) =>
    points.slice(i * length, (i + 1) * length).join(''),
  );
}

interface Form {
  whole(said: readonly Said[], body: any): object;
  events(said: readonly Said[], body: any, pieceLength: number): Iterable<Event>;
}

const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };

const chat: Form = {
  whole: (said, { model }) => ({
    ...{ id: 'chatcmpl-1', object: 'chat.completion', created: 1_700_000_000, model, usage },
    choices: said.map(({ text: content = null, calls }, index) => ({
      index,
      message: { role: 'assistant', content, refusal: null, ...toolCalls(calls) },
      logprobs: null,
      finish_reason: calls === undefined ? 'stop' : 'tool_calls',
    })),
  }),
  *events(said, { model, stream_options: options }, pieceLength) {
    const made = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1_700_000_000 };
    const chunk = (index: number, delta: object, finish: string | null = null) => ({
      data: { ...made, model, choices: [{ index, delta, logprobs: null, finish_reason: finish }] },
    });
    for (const [index] of said.entries()) yield chunk(index, { role: 'assistant', content: '' });
    // The choices come by turns.
    const turns = said.map((one) => chatDeltas(one, pieceLength));
    for (let turn = 0; turns.some((deltas) => turn < deltas.length); turn++)
      for (const [index, deltas] of turns.entries()) {
        const [delta, piece] = deltas[turn] ?? [];
        if (delta !== undefined) yield { ...chunk(index, delta), piece: piece! };
      }
    for (const [index, { calls }] of said.entries())
      yield chunk(index, {}, calls === undefined ? 'stop' : 'tool_calls');
    if (options?.include_usage) yield { data: { ...made, model, choices: [], usage } };
    yield { data: '[DONE]' };
  },
};

function toolCalls(calls: Said['calls']) {
  if (calls === undefined) return {};
  return {
    tool_calls: calls.map((called, i) => ({ id: `call_${i}`, type: 'function', function: called })),
  };
}

function chatDeltas({ text: said = '', calls = [] }: Said, length: number): [object, string][] {
  const delta = (index: number, called: object) => ({ tool_calls: [{ index, ...called }] });
  return [
    ...piecesOf(said, length).map((piece): [object, string] => [{ content: piece }, piece]),
    ...calls.flatMap(({ name, arguments: whole }, i): [object, string][] => {
      const begins = { id: `call_${i}`, type: 'function', function: { name, arguments: '' } };
      const pieces = piecesOf(whole, length);
      return [
        [delta(i, begins), ''],
        ...pieces.map((piece): [object, string] => [
          delta(i, { function: { arguments: piece } }),
          piece,
        ]),
      ];
    }),
  ];
}

/** The items of an answer of the responses API. */
function itemsOf([{ text: said, calls = [] } = {}]: readonly Said[]): any[] {
  const content = [{ type: 'output_text', text: said, annotations: [], logprobs: [] }];
  const message = { type: 'message', role: 'assistant', content };
  return [
    ...(said === undefined ? [] : [{ id: 'msg_0', ...message, status: 'completed' }]),
    ...calls.map((called, i) => ({
      ...{ id: `fc_${i}`, type: 'function_call', call_id: `call_${i}`, status: 'completed' },
      ...called,
    })),
  ];
}

/** An event that has the name of its type. */
const named = (data: { type: string } & Record<string, unknown>, piece?: string): Event => ({
  ...{ name: data.type, data, piece },
});

const responses: Form = {
  whole: (said, { model, instructions = null, tools = [] }) => ({
    ...{ id: 'resp_1', object: 'response', created_at: 1_700_000_000, status: 'completed', model },
    ...{ error: null, incomplete_details: null, instructions, tools, output: itemsOf(said) },
    ...{ parallel_tool_calls: true, temperature: 1, tool_choice: 'auto', top_p: 1, metadata: {} },
    usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 },
  }),
  *events(said, body, pieceLength) {
    let number = 0;
    const event = (type: string, facts: object, piece?: string) =>
      named({ type, sequence_number: number++, ...facts }, piece);
    const begun = { ...responses.whole([], body), status: 'in_progress' };
    yield event('response.created', { response: begun });
    yield event('response.in_progress', { response: begun });
    for (const [outputIndex, item] of itemsOf(said).entries()) {
      const at = { item_id: item.id, output_index: outputIndex };
      const isCall = item.type === 'function_call';
      const empty = isCall ? { arguments: '' } : { content: [] };
      const added = { ...item, ...empty, status: 'in_progress' };
      yield event('response.output_item.added', { output_index: outputIndex, item: added });
      const part = item.content?.[0];
      const inPart = { ...at, content_index: 0 };
      if (isCall) {
        for (const delta of piecesOf(item.arguments, pieceLength))
          yield event('response.function_call_arguments.delta', { ...at, delta }, delta);
        const done = { name: item.name, arguments: item.arguments };
        yield event('response.function_call_arguments.done', { ...at, ...done });
      } else {
        const begins = { ...inPart, part: { ...part, text: '' } };
        yield event('response.content_part.added', begins);
        for (const delta of piecesOf(part.text, pieceLength))
          yield event('response.output_text.delta', { ...inPart, delta, logprobs: [] }, delta);
        const done = { ...inPart, text: part.text, logprobs: [] };
        yield event('response.output_text.done', done);
        yield event('response.content_part.done', { ...inPart, part });
      }
      yield event('response.output_item.done', { output_index: outputIndex, item });
    }
    yield event('response.completed', { response: responses.whole(said, body) });
  },
};

/** The content of an answer of the messages API. */
function blocksOf([{ text: said, calls = [] } = {}]: readonly Said[]): any[] {
  return [
    ...(said === undefined ? [] : [{ type: 'text', text: said, citations: null }]),
    ...calls.map(({ name, arguments: whole }, i) => ({
      ...{ type: 'tool_use', id: `toolu_${i}`, name, input: JSON.parse(whole) },
    })),
  ];
}

const messages: Form = {
  whole: (said, { model }) => ({
    ...{ id: 'msg_1', type: 'message', role: 'assistant', model, content: blocksOf(said) },
    ...{ stop_reason: said[0]?.calls === undefined ? 'end_turn' : 'tool_use' },
    ...{ stop_sequence: null, usage: { input_tokens: 3, output_tokens: 4 } },
  }),
  *events(said, body, pieceLength) {
    const message = { ...messages.whole([], body), stop_reason: null };
    yield named({ type: 'message_start', message });
    const begun = blocksOf(said);
    for (const [index, block] of begun.entries()) {
      const isText = block.type === 'text';
      const empty = isText ? { text: '' } : { input: {} };
      yield named({ type: 'content_block_start', index, content_block: { ...block, ...empty } });
      yield named({ type: 'ping' });
      const whole = isText ? block.text : said[0]!.calls!.at(index - begun.length)!.arguments;
      for (const piece of piecesOf(whole, pieceLength)) {
        const delta = isText
          ? { type: 'text_delta', text: piece }
          : { type: 'input_json_delta', partial_json: piece };
        yield named({ type: 'content_block_delta', index, delta }, piece);
      }
      yield named({ type: 'content_block_stop', index });
    }
    const { stop_reason } = messages.whole(said, body) as any;
    const end = { delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 4 } };
    yield named({ type: 'message_delta', ...end });
    yield named({ type: 'message_stop' });
  },
};

const embeddings: Form = {
  whole: (_, { model, input, encoding_format: encoding }) => ({
    ...{ object: 'list', model, usage: { prompt_tokens: 3, total_tokens: 3 } },
    data: [input].flat().map((_, index) => ({
      ...{ object: 'embedding', index },
      embedding: encoding === 'base64' ? 'AAAAPwAAgL8=' : [0.5, -1],
    })),
  }),
  events: () => [],
};

const models: Form = {
  whole: () => ({ object: 'list', data: [{ id: 'm', object: 'model', owned_by: 'provider' }] }),
  events: () => [],
};

const FORMS: Readonly<Record<string, Form>> = {
  '/v1/chat/completions': chat,
  '/v1/responses': responses,
  '/v1/messages': messages,
  '/v1/embeddings': embeddings,
  '/v1/models': models,
};
