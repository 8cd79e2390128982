import { connect, type Socket } from 'node:net';

/** An answer. The body is decoded as latin1, because all bodies of the benchmark are ASCII. */
export interface Answer {
  readonly status: number;
  readonly body: string;
}

const CONTENT_LENGTH = /\r\ncontent-length: *(\d+)/i;
const CHUNKED = /\r\ntransfer-encoding: *chunked\r\n/i;
const CHUNK_SIZES = /\r\n[\da-f]+\r\n/gi;
const LAST_CHUNK = '\r\n0\r\n\r\n';
const STATUS_AT = 'HTTP/1.1 '.length;
const READ_BYTES = 262_144;

/**
 * A keep-alive HTTP/1.1 connection without pipelining, as cheap as node:net allows. It supports
 * answers with a Content-Length, and chunks of JSON. All connections share one read buffer.
 */
export class Connection {
  readonly #socket: Socket;
  #resolve: (answer: Answer) => void = () => {};
  #reject: (error: Error) => void = () => {};
  #text = '';
  #neededBytes = 0;
  #isChunked = false;
  /** 0: the head is not complete. */
  #bodyStart = 0;

  constructor(url: string) {
    const { hostname, port } = new URL(url);
    this.#socket = connect({
      host: hostname,
      port: Number(port),
      noDelay: true,
      onread: {
        buffer: shared,
        callback: (bytes: number) => {
          this.#read(bytes);
          return true;
        },
      },
    });
    let reason = 'closed by the peer';
    this.#socket.on('error', (error: NodeJS.ErrnoException) => {
      reason = error.code ?? error.message;
    });
    this.#socket.once('close', () => this.#reject(new Error(`lost a connection: ${reason}`)));
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
    this.#socket.removeAllListeners('close');
    this.#socket.destroy();
  }

  #read(bytes: number): void {
    const chunk = shared.latin1Slice(0, bytes);
    this.#text = this.#text === '' ? chunk : this.#text + chunk;
    if (this.#bodyStart === 0 && !this.#readHead()) return;
    if (this.#isChunked ? !this.#text.endsWith(LAST_CHUNK) : this.#text.length < this.#neededBytes)
      return;
    const status = Number(this.#text.slice(STATUS_AT, STATUS_AT + 3));
    const raw = this.#text.slice(this.#bodyStart);
    // JSON has no line breaks outside of the chunks' sizes.
    const body = this.#isChunked ? `\r\n${raw}`.replace(CHUNK_SIZES, '').trimEnd() : raw;
    this.#text = '';
    this.#bodyStart = 0;
    this.#resolve({ status, body });
  }

  /** @returns whether the head is complete */
  #readHead(): boolean {
    const end = this.#text.indexOf('\r\n\r\n');
    if (end === -1) return false;
    this.#bodyStart = end + 4;
    const length = CONTENT_LENGTH.exec(this.#text)?.[1];
    this.#isChunked = length === undefined;
    if (this.#isChunked && !CHUNKED.test(this.#text)) {
      throw new Error('an answer without Content-Length');
    }
    this.#neededBytes = this.#bodyStart + Number(length);
    return true;
  }
}

/** The method behind toString('latin1'), a third cheaper. @types/node does not declare it. */
const shared = Buffer.allocUnsafeSlow(READ_BYTES) as Buffer & {
  latin1Slice(start: number, end: number): string;
};
