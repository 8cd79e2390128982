import { ProxyError } from './failures.ts';

/** An event of a stream. `data` is a JSON text, or `[DONE]`. */
export interface ServerEvent {
  readonly name?: string | undefined;
  readonly data: string;
}

/** Reads events as https://html.spec.whatwg.org/multipage/server-sent-events.html says. */
export async function* readEvents(
  chunks: AsyncIterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<ServerEvent, void, undefined> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of chunks) {
    const texts = (rest + decoder.decode(chunk, { stream: true })).split(BLANK_LINE);
    rest = texts.pop()!;
    for (const text of texts) {
      const event = eventOf(text);
      if (event !== undefined) yield event;
    }
    if (rest.length > maxBytes)
      throw new ProxyError(502, 'An event of the provider is larger than --max-body-bytes.');
  }
}

/** A CR at the end may be half of a line end. */
const BLANK_LINE = /(?:\r\n|\n|\r(?!\n|$)){2}/;

function eventOf(text: string): ServerEvent | undefined {
  const fields = text.split(/\r\n|\n|\r/).map((line) => /^([^:]+):? ?(.*)$/s.exec(line));
  const of = (field: string) =>
    fields.filter((found) => found?.[1] === field).map((found) => found![2]!);
  const data = of('data');
  return data.length === 0 ? undefined : { name: of('event').at(-1), data: data.join('\n') };
}

export function eventText({ name, data }: ServerEvent): string {
  return `${name === undefined ? '' : `event: ${name}\n`}data: ${data}\n\n`;
}
