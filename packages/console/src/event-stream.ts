/** Far above the largest event, the history of 15 minutes with about 200 kB. */
const MAX_BUFFERED_CHARS = 8_000_000;

/**
 * Reads server-sent events from pieces that may end anywhere. The page cannot use EventSource,
 * which sends no header and does not distinguish a 401 from an unreachable service.
 */
export class EventReader {
  #rest = '';

  /** @throws Error for an event that is larger than any event of this service */
  read(piece: string): (readonly [name: string, data: string])[] {
    const blocks = (this.#rest + piece).split('\n\n');
    this.#rest = blocks.pop()!;
    if (this.#rest.length > MAX_BUFFERED_CHARS) throw new Error('an event without an end');
    return blocks.flatMap((block) => {
      const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(block) ?? [];
      return name === undefined ? [] : [[name, data!] as const];
    });
  }
}
