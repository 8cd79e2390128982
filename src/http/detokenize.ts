import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Token, Value } from '../types.ts';
import { answer } from './answer.ts';
import { audit } from './audit.ts';
import { invalid, parseData } from './body.ts';
import type { ServerContext } from './context.ts';
import { collectFields, type Field, pathOf, replaceFields } from './fields.ts';

/** POST /api/v1/detokenize */
export function detokenizeHandler(context: ServerContext) {
  const has_client_id = context.interface_version === '1.0.5';
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const data = parseData(request.body as Buffer | undefined);
    const fields = collectFields(data, context.values_limit);
    const values = await context.vault.detokenize(fields.map((field) => field.text as Token));
    const unknown = values.indexOf(undefined);
    if (unknown !== -1) {
      await countUnknown(context, request, fields, values);
      throw invalid(`${pathOf(data, fields[unknown]!)}: is not a known token`);
    }
    replaceFields(fields, values as Value[]);
    const body = has_client_id
      ? {
          data,
          status: 'success',
          request_id: request.id,
          client_id: request.caller!.client.client_id,
        }
      : { data, Status: 'success', Request_id: request.id };
    const text = JSON.stringify(body);
    await audit(context, request, 'success', 200, fields.length);
    context.metrics.values('detokenize', fields.length);
    return answer(context, request, reply, 200, text, fields.length);
  };
}

/** Each counts once, however often a request has it. */
async function countUnknown(
  { metrics, limits }: ServerContext,
  request: FastifyRequest,
  fields: readonly Field[],
  values: readonly (Value | undefined)[],
): Promise<void> {
  const unknown = new Set<string>();
  fields.forEach(({ text }, i) => {
    if (values[i] === undefined) unknown.add(text);
  });
  request.unknown_tokens = unknown.size;
  metrics.unknownTokens(unknown.size);
  await limits.spendUnknown(request.caller!.client, unknown.size);
}
