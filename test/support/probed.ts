import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { type Place, ROOT, type Service } from './service.ts';

/** What a request costs the process that answers it. */
export interface Price {
  /** The longest processor time of the main thread between two turns of its event loop. */
  readonly longestMs: number;
  /** Processor time of the main thread in turns that did something. */
  readonly busyMs: number;
  /** The most resident memory, beyond that of the resting process. */
  readonly bytes: number;
}

export interface Sent {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** More would only make a search that has found something slower. */
const TIMEOUT_MS = 30_000;

/** Settings of a service that is measured. Young memory is small, so that garbage shows less. */
export function probeSettings({ folder }: Place): Record<string, string> {
  const preload = join(ROOT, 'test/support/probe.mjs');
  return {
    PROBE: join(folder, 'probe'),
    NODE_OPTIONS: `--expose-gc --max-semi-space-size=1 --import=${preload}`,
  };
}

/** Measures requests to a service, one at a time. */
export class Probe {
  readonly #path: string;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  #socket: Socket | undefined;

  constructor({ place }: Pick<Service, 'place'>) {
    this.#path = join(place.folder, 'probe');
  }

  /** Resolves to the status and the price. Rejects when no answer comes. */
  async price(sent: Sent): Promise<Price & { readonly status: number }> {
    let status = 0;
    const price = await this.during(async () => {
      status = await this.#send(sent);
    });
    return { status, ...price };
  }

  /** What a piece of work costs. */
  async during(work: () => Promise<void>): Promise<Price> {
    await this.#command('begin');
    await work();
    return this.#command('end');
  }

  /** Processor time of a fixed piece of work. */
  async calibrationMs(): Promise<number> {
    return (await this.#command('calibrate')).ms;
  }

  close(): void {
    this.#socket?.destroy();
    this.#agent.destroy();
  }

  async #command(name: string): Promise<any> {
    this.#socket ??= connect(this.#path);
    const socket = this.#socket;
    const isOver = new AbortController();
    const end = () => isOver.abort();
    socket.once('close', end);
    try {
      socket.write(name);
      return JSON.parse(String(await once(socket, 'data', { signal: isOver.signal })));
    } finally {
      socket.off('close', end);
    }
  }

  #send({ url, method, headers, body }: Sent): Promise<number> {
    return new Promise((resolve, reject) => {
      const length = { 'content-length': String(Buffer.byteLength(body)) };
      const sent = request(url, { method, agent: this.#agent, headers: { ...headers, ...length } });
      sent.setTimeout(TIMEOUT_MS, () => sent.destroy(new Error('no answer')));
      sent.on('error', reject);
      sent.on('response', (response) => {
        response.on('error', reject);
        response.on('close', () => resolve(response.statusCode!));
        response.resume();
      });
      sent.end(body);
    });
  }
}
