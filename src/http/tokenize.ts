import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Value } from '../types.ts';
import { answer } from './answer.ts';
import { audit } from './audit.ts';
import { parseData } from './body.ts';
import type { ServerContext } from './context.ts';
import { collectFields, replaceFields } from './fields.ts';
import { successWriter } from './success.ts';

/** POST /api/v1/tokenize */
export function tokenizeHandler(context: ServerContext) {
  const write = successWriter(context.interface_version, 'tokenize');
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const data = parseData(request.body as Buffer | undefined);
    const fields = collectFields(data, context.values_limit);
    const { client } = request.caller!;
    const values = fields.map((field) => field.text as Value);
    replaceFields(fields, await context.vault.tokenize(values, client));
    const body = write(request, data);
    await audit(context, request, 'success', 200, fields.length);
    context.metrics.values('tokenize', fields.length);
    return answer(context, request, reply, 200, body, fields.length);
  };
}
