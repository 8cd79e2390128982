import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { isEnding } from './connections.ts';

/** Requests of one connection that run at the same time. */
const MAX_IN_HAND = 8;
/** More requests with an API key than fit into one read of 64 KiB. */
const MAX_WAITING = 512;

/**
 * Bounds the requests that one connection can send ahead of its answers. Node parses all requests
 * of a read and starts them in one turn of the event loop. Thousands of them would delay all other
 * connections and file operations.
 */
export function inTurn(handler: RequestListener): RequestListener {
  const lanes = new WeakMap<Socket, Lane>();
  return (request, response) => {
    const { socket } = request;
    let lane = lanes.get(socket);
    if (lane === undefined) {
      lane = new Lane(socket, handler);
      lanes.set(socket, lane);
    }
    lane.take(request, response);
  };
}

/** The requests of a connection. */
class Lane {
  readonly #socket: Socket;
  readonly #handler: RequestListener;
  #inHand = 0;
  #waiting: (readonly [IncomingMessage, ServerResponse])[] = [];
  /** More requests came than may wait, so the connection closes after them. */
  #isFull = false;
  #isPaused = false;
  #isTurnDue = false;

  constructor(socket: Socket, handler: RequestListener) {
    this.#socket = socket;
    this.#handler = handler;
  }

  take(request: IncomingMessage, response: ServerResponse): void {
    if (this.#inHand < MAX_IN_HAND && this.#waiting.length === 0 && !isEnding(this.#socket)) {
      this.#begin(request, response);
      return;
    }
    this.#stopReading();
    if (this.#isFull || isEnding(this.#socket)) return;
    if (this.#waiting.length < MAX_WAITING) this.#waiting.push([request, response]);
    else {
      this.#isFull = true;
      // RFC 9112 section 9.3.2: the caller repeats requests without an answer.
      this.#waiting.at(-1)![1].setHeader('Connection', 'close');
    }
  }

  #begin(request: IncomingMessage, response: ServerResponse): void {
    this.#inHand++;
    response.on('close', this.#onAnswered);
    this.#handler(request, response);
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
    if (this.#waiting.length === 0 || this.#isTurnDue) return;
    this.#isTurnDue = true;
    // In the next turn, so that other work of this turn goes first.
    setImmediate(this.#turn);
  };

  readonly #turn = (): void => {
    this.#isTurnDue = false;
    if (!this.#socket.writable || isEnding(this.#socket)) {
      this.#waiting = [];
      return;
    }
    const next = this.#waiting.splice(0, MAX_IN_HAND - this.#inHand);
    if (this.#waiting.length === 0 && !this.#isFull) this.#readOn();
    for (const [request, response] of next) this.#begin(request, response);
  };

  /** Reading a body makes Node resume the connection, so pause it again. */
  readonly #stayPaused = (): void => {
    this.#socket.pause();
  };
}
