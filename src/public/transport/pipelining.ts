import { randomUUID } from 'node:crypto';
import {
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { Socket } from 'node:net';
import { CALLER_ERRORS, type CallerErrorCode } from '../../errors.ts';
import type { ByteBudget, Reservation } from '../../limits/byte-budget.ts';
import { JSON_HEADERS, LINE_END } from '../schema.ts';
import { isEnding } from './connections.ts';

/** Requests of one connection that run at the same time. */
const MAX_IN_HAND = 8;
/** Requests without an answer: more with an API key than fit into one read of 64 KiB. */
const MAX_AHEAD = 512;
/** Memory for a request that waits and its response, besides headers and body. */
const REQUEST_BYTES = 2_048;
/** Memory for a name or a value of a header, besides its bytes. */
const HEADER_BYTES = 32;
/** The most that Node reads of a body before anybody asks for it. */
const READ_BYTES = 65_536;
/** Memory for a byte of a chunked body, because each chunk may have one byte. */
const CHUNKED_FACTOR = 32;

/** Node's parser takes this as the end of HTTP on a connection. */
const IS_UPGRADE = 2;

const queues = new WeakMap<Socket, RequestQueue>();

/**
 * Bounds the requests that one connection can send ahead of its answers. Node parses all requests
 * of a read and starts them in one turn of the event loop. Thousands of them would delay all other
 * connections and file operations, and fill the heap when nobody reads their answers.
 */
export function inTurn(
  handler: RequestListener,
  budget: ByteBudget,
  maxInHand = MAX_IN_HAND,
  maxAhead = MAX_AHEAD,
): RequestListener {
  const options = { handler, budget, maxInHand, maxAhead };
  return (request, response) => {
    const { socket } = request;
    let queue = queues.get(socket);
    if (queue === undefined) {
      queue = new RequestQueue(socket, options);
      queues.set(socket, queue);
    }
    queue.take(request, response);
  };
}

/**
 * Ends a connection whose next bytes are no HTTP: calls `refuse` after the answers of the requests
 * before. A request that was answered before its body broke off gets no second answer.
 */
function refuseAfterAnswers(socket: Socket, refuse: () => void): void {
  const queue = queues.get(socket);
  if (queue === undefined) refuse();
  else queue.end(refuse);
}

/** The most memory that the body of a request takes before anybody asks for it. */
export function earlyBytes({ headers }: IncomingMessage): number {
  if (headers['transfer-encoding'] !== undefined) return CHUNKED_FACTOR * READ_BYTES;
  return Math.min(Number(headers['content-length'] ?? 0), READ_BYTES);
}

interface QueueOptions {
  readonly handler: RequestListener;
  readonly budget: ByteBudget;
  readonly maxInHand: number;
  readonly maxAhead: number;
}

/** The requests of a connection. */
class RequestQueue {
  readonly #socket: Socket;
  readonly #options: QueueOptions;
  /** The requests without a whole answer. */
  #unanswered = 0;
  #inHand = 0;
  #waiting: (readonly [IncomingMessage, ServerResponse])[] = [];
  #newest!: IncomingMessage;
  #newestResponse!: ServerResponse;
  /** The memory of requests ahead; undefined: none came yet. */
  #held: Reservation | undefined;
  /** Set when no further request can come. */
  #refuse: (() => void) | undefined;
  #isPaused = false;

  constructor(socket: Socket, options: QueueOptions) {
    this.#socket = socket;
    this.#options = options;
  }

  take(request: IncomingMessage, response: ServerResponse): void {
    if (isEnding(this.#socket)) {
      this.#stopReading();
      stopParsing(this.#socket);
      return;
    }
    if (this.#unanswered > 0 && !this.#reserve(request, response)) {
      // RFC 9112 section 9.3.2: the caller repeats requests without an answer.
      this.#socket.destroy();
      stopParsing(this.#socket);
      return;
    }
    this.#unanswered++;
    this.#newest = request;
    this.#newestResponse = response;
    if (this.#inHand < this.#options.maxInHand && this.#waiting.length === 0) {
      this.#begin(request, response);
      return;
    }
    this.#stopReading();
    this.#waiting.push([request, response]);
  }

  end(refuse: () => void): void {
    this.#refuse ??= refuse;
    this.#stopReading();
    // What lacks its end is not begun.
    if (!this.#newest.complete && this.#waiting.at(-1)?.[0] === this.#newest) this.#waiting.pop();
    this.#endIfAnswered();
  }

  /** Takes the memory of a request that comes ahead of an answer. Returns false without room. */
  #reserve(request: IncomingMessage, response: ServerResponse): boolean {
    const socket = this.#socket;
    const { budget, maxAhead } = this.#options;
    if (this.#held === undefined) {
      const opened = budget.openAhead();
      this.#held = opened;
      socket.once('close', () => budget.shrinkTo(opened, 0));
    }
    const held = this.#held;
    const bytes = waitingBytes(request);
    if (this.#unanswered >= maxAhead || !budget.reserve(held, bytes)) return false;
    const cut = () => socket.destroy();
    budget.wait(held, cut);
    response.once('close', () => {
      if (socket.destroyed) return;
      budget.shrinkTo(held, held.bytes - bytes);
      if (held.bytes > 0) budget.wait(held, cut);
    });
    return true;
  }

  #begin(request: IncomingMessage, response: ServerResponse): void {
    this.#inHand++;
    response.on('close', this.#onAnswered);
    this.#options.handler(request, response);
  }

  #stopReading(): void {
    if (this.#isPaused) return;
    this.#isPaused = true;
    this.#socket.on('resume', this.#stayPaused);
    this.#socket.pause();
  }

  #readOn(): void {
    this.#isPaused = false;
    this.#socket.off('resume', this.#stayPaused);
    this.#socket.resume();
  }

  readonly #onAnswered = (): void => {
    this.#inHand--;
    this.#unanswered--;
    if (this.#refuse !== undefined) this.#endIfAnswered();
    if (this.#waiting.length === 0) return;
    // In the next turn, so that other work of this turn goes first.
    setImmediate(this.#turn);
  };

  readonly #turn = (): void => {
    const next = this.#waiting.splice(0, this.#options.maxInHand - this.#inHand);
    for (const [request, response] of next) {
      if (!this.#socket.writable || isEnding(this.#socket)) {
        this.#waiting = [];
        return;
      }
      this.#begin(request, response);
    }
    if (this.#waiting.length === 0 && this.#refuse === undefined) this.#readOn();
  };

  #endIfAnswered(): void {
    // The refusal is also the answer to a request that broke off without one.
    const isCut = !this.#newest.complete;
    const isAnswered = this.#newestResponse.headersSent;
    if (this.#unanswered > (isCut && !isAnswered ? 1 : 0)) return;
    if (isCut && isAnswered) this.#socket.destroy();
    else this.#refuse!();
  }

  /** Reading a body makes Node resume the connection, so pause it again. */
  readonly #stayPaused = (): void => {
    this.#socket.pause();
  };
}

/**
 * Makes Node drop what it has read. It would make objects of up to 1,800 requests of a read, and
 * keep them until the turn of the event loop ends: 2,000 such reads in a turn ended the process.
 * The property is not documented. The parser stops at the next request, as if it were an upgrade.
 */
function stopParsing(socket: Socket): void {
  const { parser } = socket as { parser?: { onIncoming?: () => number } | null };
  if (parser?.onIncoming !== undefined) parser.onIncoming = () => IS_UPGRADE;
}

function waitingBytes(request: IncomingMessage): number {
  const { rawHeaders, url } = request;
  let bytes = REQUEST_BYTES + url!.length + earlyBytes(request);
  for (const text of rawHeaders) bytes += HEADER_BYTES + text.length;
  return bytes;
}

const CODES: Record<string, CallerErrorCode> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'payload_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/**
 * Answers requests that Node's HTTP parser refuses, in the form of all other errors and after the
 * answers to the requests before. Then the connection closes.
 */
export function refuseUnparsed(
  server: Server,
  onRefused?: (requestId: string, status: number, code: string) => void,
): void {
  const refuse = (socket: Socket, code: string) => {
    if (isEnding(socket)) return;
    refuseAfterAnswers(socket, () => {
      if (!socket.writable) return void socket.destroy();
      const error = CODES[code] ?? 'bad_request';
      const { status, message } = CALLER_ERRORS[error];
      const requestId = randomUUID();
      onRefused?.(requestId, status, code);
      const body = JSON.stringify({ error, message }) + LINE_END;
      socket.end(rawAnswer(status, body, requestId), () => socket.destroy());
    });
  };
  server.on('clientError', ({ code = '' }: NodeJS.ErrnoException, socket: Socket) => {
    // Any other error is one of the connection, such as a reset or a failed TLS handshake.
    if (/^(HPE|ERR_HTTP)_/.test(code)) refuse(socket, code);
    else socket.destroy();
  });
  // Without a listener, Node closes the connection without an answer.
  server.on('connect', (_, socket: Socket) => refuse(socket, 'HPE_INVALID_METHOD'));
}

/** A whole HTTP/1.1 answer for a request without a response object. */
function rawAnswer(status: number, body: string, requestId: string): string {
  const headers = [...JSON_HEADERS, 'X-Request-Id', requestId, 'Connection', 'close'];
  headers.push('Content-Length', String(Buffer.byteLength(body)));
  let text = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
  for (let i = 0; i < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`;
  return `${text}\r\n${body}`;
}
