import {
  Agent,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request,
  type ServerResponse,
} from 'node:http';
import { onTestFinished } from 'vitest';
import { until } from './service.ts';
import { StandIn } from './stand-in.ts';

const PROBE_INTERVAL_MS = 200;

interface Target {
  readonly url: string;
  readonly agent: Agent;
  isReady: boolean;
  /** The changes of /health: a status, or `gone`. */
  readonly turns: string[];
}

/**
 * A minimal HTTP proxy before several nodes. It sends requests in turn to nodes whose /health is
 * 200, over persistent connections, and retries nothing.
 */
export class Balancer extends StandIn {
  readonly #targets: Target[] = [];
  #last = 0;
  #isOver = false;

  /** Resolves when all nodes are ready. Stops with the test. */
  static async start(urls: readonly string[]): Promise<Balancer> {
    const balancer = await new Balancer().open();
    onTestFinished(() => {
      balancer.#isOver = true;
      balancer.stop();
      for (const { agent } of balancer.#targets) agent.destroy();
    });
    await Promise.all(urls.map((url) => balancer.#add(url)));
    return balancer;
  }

  private constructor() {
    super((incoming, answer) => this.#pass(incoming, answer));
  }

  turnsOf(url: string): readonly string[] {
    return this.#targets.find((target) => target.url === url)!.turns;
  }

  /** Resolves when the new node gets requests. */
  async replace(oldUrl: string, url: string): Promise<void> {
    const at = this.#targets.findIndex((target) => target.url === oldUrl);
    this.#targets.splice(at, 1)[0]?.agent.destroy();
    await this.#add(url);
  }

  async #add(url: string): Promise<void> {
    const target = { url, agent: new Agent({ keepAlive: true }), isReady: false, turns: [] };
    this.#targets.push(target);
    void this.#probe(target);
    await until(() => target.isReady, `a node at ${url} to be ready`);
  }

  async #probe(target: Target): Promise<void> {
    while (!this.#isOver && this.#targets.includes(target)) {
      const turn = await fetch(`${target.url}/health`, { headers: { connection: 'close' } }).then(
        (response) => response.text().then(() => String(response.status)),
        () => 'gone',
      );
      target.isReady = turn === '200';
      if (target.turns.at(-1) !== turn) target.turns.push(turn);
      await new Promise((resolve) => setTimeout(resolve, PROBE_INTERVAL_MS));
    }
  }

  #pass(incoming: IncomingMessage, answer: ServerResponse): void {
    const ready = this.#targets.filter((target) => target.isReady);
    const target = ready[this.#last++ % ready.length];
    const fail = () => {
      if (answer.headersSent) answer.destroy();
      else answer.writeHead(502, { 'content-type': 'application/json' }).end('{"error":"proxy"}');
    };
    if (target === undefined) {
      fail();
      return;
    }
    const { method = '', url, headers: sent } = incoming;
    const { connection: _hop, ...headers } = sent;
    const outgoing = request(target.url + url, { method, headers, agent: target.agent });
    outgoing.on('error', fail);
    outgoing.on('response', (response) => {
      const { connection: _hopBack, 'keep-alive': _forUs, ...kept } = response.headers;
      answer.writeHead(response.statusCode!, kept);
      response.pipe(answer);
    });
    incoming.pipe(outgoing);
  }
}

/** A fault that replaces the service's answer. `cut`: the answer ends in the middle. */
export type Trouble =
  | 'reset'
  | 'cut'
  | 'silence'
  | { readonly status: number; readonly headers?: OutgoingHttpHeaders; readonly body: string };

/** An HTTP proxy that fails as load balancers do. */
export class Front extends StandIn {
  /** Faults of the next requests, in turn. Later requests reach the service. */
  readonly troubles: Trouble[] = [];
  /** The bodies of all requests. */
  readonly bodies: string[] = [];
  /** When each request came, by performance.now(). */
  readonly timesMs: number[] = [];
  readonly #target: string;
  readonly #path: string;

  /** @param path what callers write before the paths of the target */
  static start(target: string, path = ''): Promise<Front> {
    return new Front(target, path).open();
  }

  private constructor(target: string, path: string) {
    // A connection that ends while its next request is on the way would cost an attempt.
    super((incoming, outgoing) => this.#take(incoming, outgoing), { keepAliveTimeout: 300_000 });
    this.#target = target;
    this.#path = path;
  }

  async #take(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    this.timesMs.push(performance.now());
    const body = Buffer.concat(await incoming.toArray());
    this.bodies.push(body.toString());
    const trouble = this.troubles.shift();
    if (trouble === 'silence') return;
    if (trouble === 'reset') incoming.socket.resetAndDestroy();
    else if (typeof trouble === 'object')
      outgoing.writeHead(trouble.status, trouble.headers).end(trouble.body);
    else this.#pass(incoming, body, outgoing, trouble === 'cut');
  }

  #pass(incoming: IncomingMessage, body: Buffer, outgoing: ServerResponse, isCut: boolean): void {
    const { method = '', url = '', headers } = incoming;
    if (!url.startsWith(this.#path)) return void outgoing.writeHead(404).end();
    const passed = request(
      this.#target + url.slice(this.#path.length),
      { method, headers },
      async (answer) => {
        const bytes = Buffer.concat(await answer.toArray());
        outgoing.writeHead(answer.statusCode!, answer.headers);
        if (isCut) outgoing.write(bytes.subarray(0, -1), () => outgoing.destroy());
        else outgoing.end(bytes);
      },
    );
    passed.on('error', () => outgoing.destroy());
    passed.end(body);
  }
}
