import type { FastifyReply, FastifyRequest } from 'fastify';
import { CallerError } from '../errors.ts';
import type { ServerContext } from './context.ts';

/** Memory for each value of a request besides its bytes, on the way to the vault and back. */
const FIELD_BYTES = 256;

/**
 * Makes a request hold more bytes of the budget.
 * @throws CallerError overloaded
 */
export function hold({ budget }: ServerContext, request: FastifyRequest, bytes: number): void {
  if (!budget.grow(request.held!, bytes)) throw new CallerError('overloaded', '', 1);
}

/** @throws CallerError overloaded */
export function holdFields(context: ServerContext, request: FastifyRequest, fields: number): void {
  hold(context, request, fields * FIELD_BYTES);
}

/**
 * Releases the bytes of a request after its answer. Bytes of the answer that the system has not
 * taken stay held until they are sent or the connection ends.
 */
export function letGo({ budget }: ServerContext, request: FastifyRequest, reply: FastifyReply) {
  const { held } = request;
  if (held === null) return;
  const { raw: response } = reply;
  const unsent = response.writableLength;
  const isStream = !response.writableEnded;
  const { socket } = request.raw;
  const isGone = response.destroyed || socket.destroyed;
  if (isGone || (unsent === 0 && !isStream)) return budget.settle(held, 0);
  budget.settle(held, isStream ? held.bytes : unsent);
  budget.wait(held, () => socket.destroy());
  const release = () => {
    socket.off('close', release);
    budget.settle(held, 0);
  };
  response.once('close', release);
  // An answer queued behind another one gets no event when the connection ends, so listen on the
  // socket.
  socket.setMaxListeners(0).once('close', release);
}
