import type { FastifyRequest } from 'fastify';
import type { ServerContext } from './context.ts';

/**
 * Writes the audit line of a tokenize or detokenize request after its API key was checked.
 * @param values number of values in the answer
 * @returns the promise that a success must wait for; rejects with InternalError audit_unavailable
 */
export function audit(
  context: ServerContext,
  request: FastifyRequest,
  outcome: string,
  status: number,
  values = 0,
): Promise<void> | undefined {
  if (context.audit === undefined || request.operation === null) return undefined;
  return context.audit.record({
    event: request.operation,
    outcome,
    status,
    request_id: request.id,
    client_id: request.caller?.client.client_id,
    api_key_id: request.caller?.api_key_id,
    values,
    unknown_tokens: request.unknown_tokens || undefined,
    remote_address: request.raw.socket.remoteAddress,
  });
}
