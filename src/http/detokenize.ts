import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Token, Value } from '../types.ts';
import { answer } from './answer.ts';
import { invalid, parseData } from './body.ts';
import type { ServerContext } from './context.ts';
import { collectFields, pathOf, replaceFields } from './fields.ts';

/** POST /api/v1/detokenize */
export function detokenizeHandler(context: ServerContext) {
  const has_client_id = context.interface_version === '1.0.5';
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const data = parseData(request.body as Buffer | undefined);
    const fields = collectFields(data, context.values_limit);
    const values = await context.vault.detokenize(fields.map((field) => field.text as Token));
    const unknown = values.indexOf(undefined);
    if (unknown !== -1) throw invalid(`${pathOf(data, fields[unknown]!)}: is not a known token`);
    replaceFields(fields, values as Value[]);
    context.metrics.values('detokenize', fields.length);
    const body = has_client_id
      ? {
          data,
          status: 'success',
          request_id: request.id,
          client_id: request.caller!.client.client_id,
        }
      : { data, Status: 'success', Request_id: request.id };
    return answer(context, request, reply, 200, JSON.stringify(body), fields.length);
  };
}
