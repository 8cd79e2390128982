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
 * A keep-alive HTTP/1.1 connection without pipelining, as cheap as node:net allows. It supports
 * only answers with a Content-Length. All connections share one read buffer.
 */
export class Connection {
  readonly #socket: Socket;
  readonly #onAnswer: (answer: Answer) => void;
  #text = '';
  #neededBytes = 0;
  #bodyStart = 0;

  /** @param onLost called once if the connection ends without close() */
  constructor(
    host: string,
    port: number,
    onAnswer: (answer: Answer) => void,
    onLost: (reason: string) => void,
  ) {
    this.#onAnswer = onAnswer;
    this.#socket = connect({
      host,
      port,
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
    this.#socket.once('close', () => onLost(reason));
  }

  send(request: string): void {
    this.#socket.write(request, 'latin1');
  }

  close(): void {
    this.#socket.removeAllListeners('close');
    this.#socket.destroy();
  }

  #read(bytes: number): void {
    const chunk = shared.latin1Slice(0, bytes);
    this.#text = this.#text === '' ? chunk : this.#text + chunk;
    if (this.#neededBytes === 0 && !this.#readHead()) return;
    if (this.#text.length < this.#neededBytes) return;
    const status = Number(this.#text.slice(STATUS_AT, STATUS_AT + 3));
    const body = this.#text.slice(this.#bodyStart, this.#neededBytes);
    this.#text = '';
    this.#neededBytes = 0;
    this.#onAnswer({ status, body });
  }

  /** @returns whether the head is complete */
  #readHead(): boolean {
    const end = this.#text.indexOf('\r\n\r\n');
    if (end === -1) return false;
    const length = CONTENT_LENGTH.exec(this.#text)?.[1];
    if (length === undefined) throw new Error('an answer without Content-Length');
    this.#bodyStart = end + 4;
    this.#neededBytes = this.#bodyStart + Number(length);
    return true;
  }
}

/** The method behind toString('latin1'), a third cheaper. @types/node does not declare it. */
const shared = Buffer.allocUnsafeSlow(READ_BYTES) as Buffer & {
  latin1Slice(start: number, end: number): string;
};

/** The bytes of a POST of `{"data": ...}`. @param data JSON, ASCII only */
export function post(path: string, apiKey: string, data: string): string {
  return `POST ${path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${apiKey}\r\nContent-Type: application/json\r\nContent-Length: ${data.length + 9}\r\n\r\n{"data":${data}}`;
}
