import { CallerError } from '../../errors.ts';
import type { Exchange } from '../exchange.ts';
import { MESSAGES } from '../schema.ts';

const NO_BYTES = Buffer.alloc(0);

/**
 * Reads the body of a request, and takes its bytes from the budget as they arrive, not as a header
 * declares.
 * @throws CallerError payload_too_large, overloaded or request_timeout; then the connection closes
 */
export function readBody(exchange: Exchange): Promise<Buffer> {
  const { request, context } = exchange;
  const { budget, bodyLimit } = context;
  const held = exchange.reservation!;
  const declared = Number(request.headers['content-length'] ?? Number.NaN);
  const gathered = new Gathered();
  let bytes = 0;
  return new Promise((resolve, reject) => {
    const take = (chunk: Buffer): void => {
      bytes += chunk.length;
      if (bytes > bodyLimit)
        fail(new CallerError('payload_too_large', MESSAGES.payload_too_large(bodyLimit)));
      else if (!budget.reserve(held, gathered.add(chunk)))
        fail(new CallerError('overloaded', '', 1));
      else if (bytes !== declared)
        budget.wait(held, () => fail(new CallerError('request_timeout')));
    };
    const leave = (): void => {
      request.off('data', take).off('end', finish).off('error', fail);
      budget.resume(held);
    };
    const finish = (): void => {
      leave();
      resolve(gathered.whole());
    };
    const fail = (error: Error): void => {
      leave();
      // Throw the rest of the body away. Without an error listener, its errors would end the
      // process.
      request.on('error', () => {}).resume();
      exchange.isLast = true;
      reject(error);
    };
    request.on('data', take).on('end', finish).on('error', fail);
  });
}

/** The bytes of a body in one buffer, because a buffer for each small piece costs more. */
class Gathered {
  #buffer: Buffer = NO_BYTES;
  #used = 0;

  /** @returns the number of additional bytes held */
  add(piece: Buffer): number {
    const before = this.#buffer;
    const used = this.#used + piece.length;
    // The first piece is usually the whole body.
    if (this.#used === 0) this.#buffer = piece;
    else {
      if (used > before.length) {
        this.#buffer = Buffer.allocUnsafe(used + (used >> 1));
        before.copy(this.#buffer, 0, 0, this.#used);
      }
      piece.copy(this.#buffer, this.#used);
    }
    this.#used = used;
    return this.#buffer.length - before.length;
  }

  whole(): Buffer {
    const isFull = this.#used === this.#buffer.length;
    return isFull ? this.#buffer : this.#buffer.subarray(0, this.#used);
  }
}
