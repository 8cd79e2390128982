import { connect, type Socket } from 'node:net';

/** An answer. The body is decoded as latin1, because all bodies of the benchmark are ASCII. */
export interface Answer {
  readonly status: number;
  readonly body: string;
}

const CONTENT_LENGTH = /\r\ncontent-length: *(\d+)/i;
const STATUS_AT = 'HTTP/1.1 '.length;
const READ_BYTES = 262_144;

/**
 * A keep-alive HTTP/1.1 connection without pipelining, as cheap as node:net allows. All connections
 * share one read buffer.
 */
export class Connection {
  readonly #socket: Socket;
  #resolve: (answer: Answer) => void = () => {};
  #reject: (error: Error) => void = () => {};
  #text = '';
  /** Of the whole answer; 0: the head is not complete. */
  #end = 0;

  constructor(url: string) {
    const { hostname: host, port } = new URL(url);
    const callback = (bytes: number) => {
      this.#read(shared.latin1Slice(0, bytes));
      return true;
    };
    const onread = { buffer: shared, callback };
    this.#socket = connect({ host, port: Number(port), noDelay: true, onread });
    this.#socket.on('error', (error) => this.#reject(error));
    this.#socket.once('close', () => this.#reject(new Error('lost a connection')));
  }

  /** @throws Error if the connection ends before the answer */
  ask(request: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      if (this.#socket.destroyed) reject(new Error('lost a connection'));
      else this.#socket.write(request, 'latin1');
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(chunk: string): void {
    this.#text += chunk;
    // To search a text of many chunks copies it, so it is done for the first and for the last one.
    if (this.#text.length < this.#end) return;
    const headEnd = this.#text.indexOf('\r\n\r\n');
    if (headEnd === -1) return;
    const [, length] = CONTENT_LENGTH.exec(this.#text) ?? [];
    if (length === undefined) this.#reject(new Error('an answer without Content-Length'));
    this.#end = headEnd + 4 + Number(length);
    if (this.#text.length < this.#end) return;
    const status = Number(this.#text.slice(STATUS_AT, STATUS_AT + 3));
    const body = this.#text.slice(headEnd + 4);
    this.#text = '';
    this.#end = 0;
    this.#resolve({ status, body });
  }
}

/** The method behind toString('latin1'), a third cheaper. @types/node does not declare it. */
const shared = Buffer.allocUnsafeSlow(READ_BYTES) as Buffer & {
  latin1Slice(start: number, end: number): string;
};
