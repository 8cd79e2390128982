import type { FastifyRequest } from 'fastify';
import type { ServerContext } from './context.ts';

/**
 * Writes the audit line of a request to tokenize or detokenize whose API key was looked at.
 * @param values how many the answer has
 * @returns what a success has to wait for; it rejects with InternalError audit_unavailable
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
