import type { FastifyReply, FastifyRequest } from 'fastify';
import { CallerError } from '../errors.ts';
import type { ServerContext } from './context.ts';

/** Of a request, what each value takes besides its bytes, on its way to the vault and back. */
const FIELD_BYTES = 256;

/** Has a request hold more bytes of the budget. @throws CallerError overloaded */
export function hold({ budget }: ServerContext, request: FastifyRequest, bytes: number): void {
  if (!budget.grow(request.held!, bytes)) throw new CallerError('overloaded', '', 1);
}

/** @throws CallerError overloaded */
export function holdFields(context: ServerContext, request: FastifyRequest, fields: number): void {
  hold(context, request, fields * FIELD_BYTES);
}

/**
 * Lets a request go that has its answer. What the system has not taken of the answer is held until
 * the system has it, or the connection is gone.
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
  // An answer that waits for the one before it hears nothing of the end of the connection.
  socket.setMaxListeners(0).once('close', release);
}
