import { BEGINS_JSON, isJson } from '#paths/json-text';
import { ProxyError } from './failures.ts';
import { type Restore, Restorer, type Tokens } from './restorer.ts';
import { eventText, type ServerEvent } from './sse.ts';

type Json = { [name: string]: unknown };

/** What the proxy reads in an event of any API. */
interface Event extends Json {
  readonly type?: string;
  readonly choices?: readonly Choice[];
  readonly index?: number;
  readonly delta?: string | Json;
  sequence_number?: number;
}
interface Choice {
  readonly index: number;
  readonly delta?: Json;
  readonly finish_reason?: unknown;
}

/** A piece of a text in an event. */
interface Piece {
  /** Which text: the index of the choice or item, and the field. */
  readonly key: string;
  readonly owner: Json;
  readonly field: string;
}

/** What the streams of an API have in common with the others. */
interface Stream {
  pieces(event: Event): Piece[];
  /** The beginning of the keys of the texts that end with this event. */
  ends(event: Event): string[];
  /** Whether nothing may be missing after it. */
  isLast(event: Event): boolean;
}

const chat: Stream = {
  pieces: ({ choices = [] }) =>
    choices.flatMap(({ index, delta }) => piecesIn(delta ?? {}, `${index}/`)),
  ends: ({ choices = [] }) =>
    choices.flatMap(({ index, delta, finish_reason: reason }) => [
      // Some providers send an empty list with each piece of a text.
      ...(hasSome(delta?.tool_calls) ? [`${index}/content`] : []),
      ...(reason ? [`${index}/`] : []),
    ]),
  isLast: ({ choices = [] }) => choices.some((one) => Boolean(one.finish_reason)),
};

/** Fields of a delta that are complete in each, or signed. All others may go on in the next. */
const COMPLETE = /^(role|id|type|name|format|status|signature|thinking|data|encrypted_content)$/;

/** All texts of a chat delta that go on in the next one, those of lists by their index. */
function piecesIn(owner: Json, path: string): Piece[] {
  return Object.entries(owner).flatMap(([field, value]) => {
    if (isObject(value)) {
      const name = Array.isArray(owner) ? (value.index ?? field) : field;
      return piecesIn(value, `${path}${name}/`);
    }
    const isText = typeof value === 'string' && !Array.isArray(owner) && !COMPLETE.test(field);
    return isText ? [{ key: path + field, owner, field }] : [];
  });
}

const hasSome = (list: unknown) => Array.isArray(list) && list.length > 0;

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null;

const keyOf = (event: Event) => {
  const { type = '', output_index, item_id, content_index, summary_index } = event;
  const text = type.replace(/\.(delta|done)$/, '');
  return [text, output_index, item_id, content_index, summary_index].join('/');
};

const responses: Stream = {
  pieces: (event) =>
    typeof event.delta === 'string' ? [{ key: keyOf(event), owner: event, field: 'delta' }] : [],
  ends: (event) => (event.type?.endsWith('.done') ? [keyOf(event)] : []),
  isLast: ({ type = '' }) => /^(response\.(completed|failed|incomplete)|error)$/.test(type),
};

const messages: Stream = {
  pieces: ({ index, delta }) =>
    typeof delta !== 'object'
      ? []
      : ['text', 'partial_json']
          .filter((field) => typeof delta[field] === 'string')
          .map((field) => ({ key: `${index}/${field}`, owner: delta, field })),
  ends: ({ type, index }) => (type === 'content_block_stop' ? [`${index}/`] : []),
  isLast: ({ type }) => type === 'message_stop' || type === 'error',
};

/** Events of the responses API are numbered. */
const numberOf = ({ sequence_number: n }: Event) => (n === undefined ? {} : { sequence_number: n });

const STREAMS: Readonly<Record<string, Stream>> = {
  '/v1/chat/completions': chat,
  '/v1/responses': responses,
  '/v1/messages': messages,
};

/** Names of fields whose text is JSON. */
const JSON_FIELD = /arguments|partial_json/;
/** Fields and types whose text is prose, even where the request asked for JSON. */
const PROSE = /reasoning|refusal|summary/;
/** The next request must have the text as the model wrote it: a signature is over it. */
const SIGNED = /^(thinking|signature|encrypted_content)$/;
/** Texts of one answer at a time. */
const MAX_TEXTS = 1_000;

/** Leaves out what a second event would repeat: what is signed, and lists of texts. */
function once(name: string, value: unknown): unknown {
  const isTexts = Array.isArray(value) && value.some((one) => typeof one === 'string');
  return isTexts || SIGNED.test(name) ? undefined : value;
}

interface Format {
  readonly type?: string;
  readonly format?: Format;
}

/** Restores the tokens of one request in the answer to it. */
export class Answer {
  readonly #tokens: Tokens;
  readonly #restore: Restore;
  /** Whether the request asked for JSON instead of text. */
  readonly #isJson: boolean;

  constructor(tokens: Tokens, restore: Restore, body: object) {
    this.#tokens = tokens;
    this.#restore = restore;
    const {
      response_format: chat,
      text,
      output_config: config,
      output_format: format,
    } = body as Record<string, Format | undefined>;
    const asked = chat ?? text?.format ?? config?.format ?? format;
    this.#isJson = asked?.type?.startsWith('json') === true;
  }

  /** A copy with every token in a text restored. */
  async whole(value: unknown, field = '', isJsonText = this.#isJson): Promise<unknown> {
    if (typeof value === 'string') {
      if (SIGNED.test(field)) return value;
      // Arguments that the model did not end are no JSON yet; callers may still end them.
      const isEscaped = JSON_FIELD.test(field) || (isJsonText && BEGINS_JSON.test(value));
      const restorer = new Restorer(this.#tokens, this.#restore, isEscaped);
      return (await restorer.feed(value)) + restorer.end();
    }
    if (!isObject(value)) return value;
    const isJson = isJsonText && !PROSE.test(`${value.type}`);
    if (Array.isArray(value)) {
      const made = [];
      for (const one of value) made.push(await this.whole(one, field, isJson));
      return made;
    }
    const made: [string, unknown][] = [];
    for (const [name, one] of Object.entries(value)) {
      const key = (await this.whole(name)) as string;
      made.push([key, await this.whole(one, name, isJson && !PROSE.test(name))]);
    }
    // A name such as __proto__ stays one.
    return Object.fromEntries(made);
  }

  /**
   * The events of the provider, restored, as texts.
   * @throws ProxyError when they end too early
   */
  async *stream(path: string, events: AsyncIterable<ServerEvent>): AsyncGenerator<string> {
    const stream = STREAMS[path]!;
    const open = new Map<string, { restorer: Restorer; name: string | undefined; event: Event }>();
    let added = 0;
    let sawLast = false;
    const textOf = (name: string | undefined, event: Event) => {
      if (typeof event.sequence_number === 'number') event.sequence_number += added;
      return eventText({ name, data: JSON.stringify(event) });
    };
    for await (const { name, data } of events) {
      if (!isJson(data)) {
        if (data !== '[DONE]')
          throw new ProxyError(502, 'The provider sent an event without JSON.');
        yield eventText({ name, data });
        continue;
      }
      const event: Event = JSON.parse(data);
      const pieces = stream.pieces(event);
      const ends = stream.ends(event);
      const isEnd = (key: string) => ends.some((start) => key.startsWith(start));
      for (const [key, last] of open) {
        if (!isEnd(key) || pieces.some((piece) => piece.key === key)) continue;
        open.delete(key);
        const rest = last.restorer.end();
        if (rest === '') continue;
        for (const piece of stream.pieces(last.event))
          piece.owner[piece.field] = piece.key === key ? rest : '';
        yield textOf(last.name, { ...last.event, ...numberOf(event) });
        added++;
      }
      const template: Event = JSON.parse(data, once);
      const restored: string[] = [];
      for (const { key, owner, field } of pieces) {
        const isEscaped = JSON_FIELD.test(key) || (this.#isJson && !PROSE.test(key));
        const restorer =
          open.get(key)?.restorer ?? new Restorer(this.#tokens, this.#restore, isEscaped);
        const text = await restorer.feed(owner[field] as string);
        restored.push(isEnd(key) ? text + restorer.end() : text);
        if (isEnd(key)) open.delete(key);
        else open.set(key, { restorer, name, event: template });
        if (open.size > MAX_TEXTS) throw new ProxyError(502, 'The provider sent too many texts.');
        owner[field] = '';
      }
      const made = (await this.whole(event)) as Event;
      for (const [i, { owner, field }] of stream.pieces(made).entries()) owner[field] = restored[i];
      sawLast ||= stream.isLast(event);
      yield textOf(name, made);
    }
    if (!sawLast || open.size > 0)
      throw new ProxyError(502, 'The answer of the provider ended in the middle.');
  }
}
