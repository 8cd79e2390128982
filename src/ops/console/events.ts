import type { ServerResponse } from 'node:http';
import type { ConsoleEvents } from '#console';
import { refusal } from '../errors.ts';
import { alreadySent, type OpsContext } from '../web.ts';
import type { CurrentState } from './current-state.ts';
import type { Sampler } from './sampler.ts';

const STATE_INTERVAL_MS = 5_000;
const MAX_STREAMS = 20;
/** The listener disconnects a slower reader. A reader that reconnects gets the history. */
const MAX_UNSENT_BYTES = 1_048_576;
/** The time a browser waits before it reconnects. */
const RETRY_MS = 2_000;

interface Stream {
  readonly response: ServerResponse;
  readonly isAllowed: () => boolean;
}

/** Sends the same server-sent events to all readers. */
export class EventStreams {
  readonly #sampler: Sampler;
  readonly #state: CurrentState;
  readonly #streams = new Set<Stream>();
  readonly #timer: NodeJS.Timeout;

  constructor(sampler: Sampler, state: CurrentState) {
    this.#sampler = sampler;
    this.#state = state;
    sampler.onSample = (sample) => this.#send(eventOf('sample', sample));
    this.#timer = setInterval(() => void this.#sendState(), STATE_INTERVAL_MS);
    this.#timer.unref();
  }

  /**
   * @param isAllowed checked before every event, because a session may end
   * @throws Refusal for more than MAX_STREAMS
   */
  async open(c: OpsContext, isAllowed: () => boolean): Promise<Response> {
    if (this.#streams.size >= MAX_STREAMS)
      throw refusal('overloaded', `There are already ${MAX_STREAMS} streams. Close one of them.`);
    const { incoming, outgoing: response } = c.env;
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'X-Accel-Buffering': 'no' });
    if (incoming.method === 'HEAD') response.end();
    else {
      const stream = { response, isAllowed };
      this.#streams.add(stream);
      response.once('close', () => this.#streams.delete(stream));
      response.write(`retry: ${RETRY_MS}\n\n${eventOf('history', this.#sampler.samples)}`);
      const state = await this.#state.read();
      if (this.#streams.has(stream)) response.write(eventOf('state', state));
    }
    return alreadySent(c);
  }

  /** Ends all streams. */
  close(): void {
    clearInterval(this.#timer);
    for (const { response } of this.#streams) response.end();
    this.#streams.clear();
  }

  async #sendState(): Promise<void> {
    if (this.#streams.size > 0) this.#send(eventOf('state', await this.#state.read()));
  }

  #send(event: string): void {
    for (const stream of this.#streams) {
      const { response, isAllowed } = stream;
      const isBehind = response.writableLength > MAX_UNSENT_BYTES;
      if (!isBehind && isAllowed()) {
        response.write(event);
        continue;
      }
      this.#streams.delete(stream);
      if (isBehind) response.destroy();
      else response.end();
    }
  }
}

function eventOf<Name extends keyof ConsoleEvents>(name: Name, data: ConsoleEvents[Name]): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
