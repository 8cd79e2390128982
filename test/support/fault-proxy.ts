import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { listen } from './stand-in.ts';

/** The only statement of tokenize that commits. */
const INSERT = /insert into standin\.records/;
const READY_FOR_QUERY = 0x5a;
/** Bytes of type and length in a message of the PostgreSQL protocol. */
const HEAD_BYTES = 5;

/**
 * A TCP proxy before PostgreSQL that fails as networks do. Tests decide when faults begin. The
 * proxy draws from the seeded generator of the test.
 */
export class FaultProxy {
  readonly port: number;
  readonly #server: Server;
  readonly #links = new Set<Link>();
  /** Delay of each reply, in milliseconds. Replies of a connection stay in order. */
  delayMs: () => number = () => 0;
  /** How many inserts lose their reply: the proxy drops it after the commit, and resets. */
  dropsLeft = 0;
  dropped = 0;
  /** A reply held for longer is late: the service should have closed its connection. */
  lateAfterMs = Infinity;
  late = 0;
  /** Late replies on connections that the service still had open. */
  lateReceived = 0;
  #isSilent = false;

  /** Port of PostgreSQL on the loopback address. */
  targetPort: number;

  static async start(targetPort: number): Promise<FaultProxy> {
    const server = createServer();
    return new FaultProxy(server, await listen(server), targetPort);
  }

  private constructor(server: Server, port: number, targetPort: number) {
    this.#server = server;
    this.port = port;
    this.targetPort = targetPort;
    server.on('connection', (client) => {
      const link = new Link(this, client);
      this.#links.add(link);
      client.once('close', () => this.#links.delete(link));
      if (!this.#isSilent) link.resume();
    });
  }

  /** Turns the URL of a database into its URL through the proxy. */
  through(url: string): string {
    const changed = new URL(url);
    changed.port = String(this.port);
    return changed.href;
  }

  /** Open connections of the service. */
  get connections(): number {
    return this.#links.size;
  }

  /** Delayed replies. */
  get held(): number {
    return [...this.#links].reduce((sum, link) => sum + link.held, 0);
  }

  /** A black hole: holds all bytes and ends of connections, and answers no new connection. */
  silence(): void {
    this.#isSilent = true;
    for (const link of this.#links) link.pause();
  }

  /** Delivers all held bytes, as after a retransmission. */
  heal(): void {
    this.#isSilent = false;
    for (const link of this.#links) link.resume();
  }

  /** Leads to another server, as a virtual address does. Connections that are there are cut. */
  lead({ port }: { readonly port: number }): void {
    this.targetPort = port;
    this.#reset();
  }

  #reset(): void {
    for (const link of this.#links) link.reset();
  }

  async stop(): Promise<void> {
    this.#reset();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

/** One connection of the service, and the matching connection to PostgreSQL. */
class Link {
  readonly #proxy: FaultProxy;
  readonly #client: Socket;
  #postgres: Socket | undefined;
  /** Delayed replies, in order. */
  readonly #held: { readonly bytes: Buffer; readonly dueMs: number; readonly isLate: boolean }[] =
    [];
  #timer: NodeJS.Timeout | undefined;
  /** The bytes so far of a reply to drop. */
  #doomed: Buffer | undefined;

  constructor(proxy: FaultProxy, client: Socket) {
    this.#proxy = proxy;
    this.#client = client;
    client.setNoDelay(true);
    client.pause();
    client.on('error', () => {});
    client.once('close', () => {
      clearTimeout(this.#timer);
      for (const { isLate } of this.#held) if (isLate) this.#proxy.late++;
      this.#postgres?.destroy();
    });
    client.on('data', (bytes) => this.#ask(bytes));
  }

  get held(): number {
    return this.#held.length;
  }

  pause(): void {
    this.#client.pause();
    this.#postgres?.pause();
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  resume(): void {
    this.#postgres ??= this.#connect();
    this.#postgres.resume();
    this.#client.resume();
    this.#release();
  }

  reset(): void {
    this.#client.resetAndDestroy();
  }

  #connect(): Socket {
    const postgres = connect({ port: this.#proxy.targetPort, host: '127.0.0.1', noDelay: true });
    postgres.on('error', () => {});
    postgres.once('close', () => this.#client.destroy());
    postgres.on('data', (bytes) => this.#reply(bytes));
    return postgres;
  }

  #ask(bytes: Buffer): void {
    if (this.#proxy.dropsLeft > 0 && INSERT.test(bytes.toString('latin1'))) {
      this.#proxy.dropsLeft--;
      this.#doomed = Buffer.alloc(0);
    }
    this.#postgres!.write(bytes);
  }

  #reply(bytes: Buffer): void {
    if (this.#doomed !== undefined) {
      this.#doomed = Buffer.concat([this.#doomed, bytes]);
      if (!isComplete(this.#doomed)) return;
      this.#proxy.dropped++;
      this.reset();
      return;
    }
    const delayMs = this.#proxy.delayMs();
    if (delayMs === 0 && this.#held.length === 0) {
      this.#client.write(bytes);
      return;
    }
    const dueMs = Math.max(performance.now() + delayMs, this.#held.at(-1)?.dueMs ?? 0);
    const isLate = dueMs - performance.now() > this.#proxy.lateAfterMs;
    this.#held.push({ bytes, dueMs, isLate });
    this.#release();
  }

  #release(): void {
    const next = this.#held[0];
    if (next === undefined || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      const { bytes, isLate } = this.#held.shift()!;
      if (isLate) {
        this.#proxy.late++;
        this.#proxy.lateReceived++;
      }
      this.#client.write(bytes);
      this.#release();
    }, next.dueMs - performance.now());
  }
}

/** A reply ends with ReadyForQuery, which PostgreSQL sends after the commit. */
function isComplete(reply: Buffer): boolean {
  for (let at = 0; at + HEAD_BYTES <= reply.length; at += 1 + reply.readUInt32BE(at + 1)) {
    if (reply[at] === READY_FOR_QUERY) return true;
  }
  return false;
}
