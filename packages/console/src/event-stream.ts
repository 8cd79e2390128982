/** One server-sent event. */
interface ServerEvent {
  readonly name: string;
  readonly data: string;
}

/** Far above the largest event, the history of 15 minutes with about 200 kB. */
const MAX_BUFFERED_CHARS = 8_000_000;

/**
 * Reads server-sent events from pieces that may end anywhere. The page cannot use EventSource,
 * which sends no header and does not distinguish a 401 from an unreachable service.
 */
export class EventReader {
  #rest = '';

  /** @throws Error for an event that is larger than any event of this service */
  read(piece: string): ServerEvent[] {
    this.#rest += piece;
    const blocks = this.#rest.split(/\r?\n\r?\n/);
    this.#rest = blocks.pop() ?? '';
    if (this.#rest.length > MAX_BUFFERED_CHARS) throw new Error('an event without an end');
    return blocks.map(eventOf).filter((event) => event.data !== '');
  }
}

function eventOf(block: string): ServerEvent {
  let name = 'message';
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    const [, field, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (field === 'event') name = value!;
    if (field === 'data') data.push(value!);
  }
  return { name, data: data.join('\n') };
}
