import { CallerError, overloaded } from '../../errors.ts';
import type { Exchange } from '../exchange.ts';
import { MESSAGES } from '../schema.ts';

/** Smaller pieces are copied together, because each buffer costs more than its bytes. */
const SEGMENT_BYTES = 16_384;
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
  const declared = Number(request.headers['content-length']);
  const pieces = new Pieces();
  let bytes = 0;
  return new Promise((resolve, reject) => {
    const take = (chunk: Buffer): void => {
      bytes += chunk.length;
      if (bytes > bodyLimit)
        fail(new CallerError('payload_too_large', MESSAGES.payload_too_large(bodyLimit)));
      else if (!budget.reserve(held, pieces.add(chunk))) fail(overloaded());
      else if (bytes !== declared)
        budget.wait(held, () => fail(new CallerError('request_timeout')));
    };
    const leave = (): void => {
      request.off('data', take).off('end', finish).off('error', fail);
      budget.resume(held);
    };
    const finish = (): void => {
      leave();
      resolve(pieces.joined());
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

/** The bytes of a body in few buffers, however small its pieces are. */
class Pieces {
  readonly #whole: Buffer[] = [];
  #segment = NO_BYTES;
  #used = 0;

  /** @returns the number of additional bytes held */
  add(chunk: Buffer): number {
    // The first piece is usually the whole body.
    if (this.#whole.length === 0 || chunk.length >= SEGMENT_BYTES) {
      this.#endSegment();
      this.#whole.push(chunk);
      return chunk.length;
    }
    const fits = this.#used + chunk.length <= this.#segment.length;
    if (!fits) {
      this.#endSegment();
      this.#segment = Buffer.allocUnsafe(SEGMENT_BYTES);
    }
    this.#used += chunk.copy(this.#segment, this.#used);
    return fits ? 0 : SEGMENT_BYTES;
  }

  joined(): Buffer {
    this.#endSegment();
    return this.#whole.length === 1 ? this.#whole[0]! : Buffer.concat(this.#whole);
  }

  #endSegment(): void {
    if (this.#used > 0) this.#whole.push(this.#segment.subarray(0, this.#used));
    this.#segment = NO_BYTES;
    this.#used = 0;
  }
}
