import { EventReader } from './event-stream.ts';
import { type ConsoleState, PATHS, SAMPLE_INTERVAL_MS, type Sample } from './protocol.ts';
import { withSample } from './samples.ts';
import { send } from './send.ts';

/**
 * `stale`: connected, but no events arrive. `away`: not connected, retrying. `signed_out`: the
 * service requires the OPS_TOKEN.
 */
export type Link = 'loading' | 'live' | 'stale' | 'away' | 'signed_out';

const STALE_AFTER_MS = 3 * SAMPLE_INTERVAL_MS;
/** The page drops a connection that is silent for this time, because the service may be gone. */
const GIVE_UP_AFTER_MS = 20_000;
const RETRY_MS = [1_000, 2_000, 5_000] as const;

/** The data of the page, kept current by one stream of events. */
class Feed {
  /** Of the last 15 minutes, oldest first. */
  samples: readonly Sample[] = [];
  state: ConsoleState | null = null;
  link: Link = 'loading';
  /** Name of the administrator who is signed in to act; null: nobody is. */
  admin: string | null = null;
  /** Called after every change, and every second, because the page shows ages. */
  changed: () => void = () => {};
  #heardMs = 0;
  #beganMs = 0;
  #stateHeardMs = 0;
  #tries = 0;
  #connection = new AbortController();
  #again: () => void = () => {};

  start(): void {
    void this.#run();
    setInterval(() => this.#tick(), 1_000);
  }

  /** Connects at once, after a sign-in or when the user asks for it. */
  reconnect(): void {
    this.#tries = 0;
    this.#connection.abort();
    this.#setLink('loading');
    this.#again();
  }

  /** Forgets all data, which is only for signed-in users. */
  signedOut(): void {
    this.#connection.abort();
    this.state = null;
    this.samples = [];
    this.admin = null;
    this.#setLink('signed_out');
  }

  /** @param name of the administrator; null: the session to act has ended */
  setAdmin(name: string | null): void {
    this.admin = name;
    this.changed();
  }

  /** Time since the last event. */
  get silenceMs(): number {
    return performance.now() - this.#heardMs;
  }

  /** Unix time by the service's clock, because all times in the state are by that clock. */
  get nowMs(): number {
    if (this.state === null) return Date.now();
    return Date.parse(this.state.at) + performance.now() - this.#stateHeardMs;
  }

  async #run(): Promise<void> {
    for (;;) {
      this.#connection = new AbortController();
      this.#beganMs = performance.now();
      try {
        await this.#connect(this.#connection.signal);
      } catch {
        // The user sees the same for a refused, broken or dropped connection.
      }
      const isSignedOut = this.link === 'signed_out';
      if (!isSignedOut) this.#setLink('away');
      const waitMs = RETRY_MS[Math.min(this.#tries++, RETRY_MS.length - 1)]!;
      await new Promise<void>((resolve) => {
        this.#again = resolve;
        if (!isSignedOut) setTimeout(resolve, waitMs);
      });
    }
  }

  async #connect(signal: AbortSignal): Promise<void> {
    const state = await this.#get(PATHS.state, signal);
    this.#take('state', await state.text());
    const events = await this.#get(PATHS.events, signal);
    const reader = new EventReader();
    const texts = events.body!.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await texts.read();
      if (done) return;
      for (const [name, data] of reader.read(value)) this.#take(name, data);
      this.#tries = 0;
      this.#setLink('live');
    }
  }

  /** @throws Error when the answer is not a success */
  async #get(path: string, signal: AbortSignal): Promise<Response> {
    const response = await send(path, { signal });
    if (response.status === 401) this.signedOut();
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    return response;
  }

  #take(name: string, data: string): void {
    this.#heardMs = performance.now();
    if (name === 'history') this.samples = JSON.parse(data);
    if (name === 'sample') this.samples = withSample(this.samples, JSON.parse(data));
    if (name === 'state') {
      this.state = JSON.parse(data);
      this.#stateHeardMs = this.#heardMs;
    }
    this.changed();
  }

  #tick(): void {
    if (this.link === 'live' && this.silenceMs > STALE_AFTER_MS) this.link = 'stale';
    const waitedMs = performance.now() - Math.max(this.#heardMs, this.#beganMs);
    if (waitedMs > GIVE_UP_AFTER_MS) this.#connection.abort();
    this.changed();
  }

  #setLink(link: Link): void {
    this.link = link;
    this.changed();
  }
}

export const feed = new Feed();
