import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Value } from '../types.ts';
import { answer } from './answer.ts';
import { audit } from './audit.ts';
import { parseData } from './body.ts';
import type { ServerContext } from './context.ts';
import { collectFields, replaceFields } from './fields.ts';
import { holdFields } from './held.ts';
import { readBody } from './request-body.ts';
import { successFrame } from './success.ts';

/** POST /api/v1/tokenize */
export function tokenizeHandler(context: ServerContext) {
  const frame = successFrame(context.interfaceVersion, 'tokenize');
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const data = parseData(await readBody(context, request, reply));
    const fields = collectFields(data, context.valuesLimit);
    holdFields(context, request, fields.length);
    const { client } = request.caller!;
    const values = fields.map((field) => field.text as Value);
    replaceFields(fields, await context.vault.tokenize(values, client));
    const [before, after] = frame(request);
    const body = before + JSON.stringify(data) + after;
    const audited = audit(context, request, 'success', 200, fields.length);
    if (audited !== undefined) await audited;
    context.metrics.values('tokenize', fields.length);
    return answer(context, request, reply, 200, body, fields.length);
  };
}
