import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Token, Value } from '../types.ts';
import { answer } from './answer.ts';
import { audit } from './audit.ts';
import { invalid, parseData } from './body.ts';
import type { ServerContext } from './context.ts';
import { collectFields, type Field, pathOf, replaceFields } from './fields.ts';
import { MAX_ANSWER_BODIES } from './schema.ts';
import { successWriter } from './success.ts';

/** POST /api/v1/detokenize */
export function detokenizeHandler(context: ServerContext) {
  const write = successWriter(context.interface_version, 'detokenize');
  const max_units = MAX_ANSWER_BODIES * context.body_limit;
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const data = parseData(request.body as Buffer | undefined);
    const fields = collectFields(data, context.values_limit);
    const values = await context.vault.detokenize(fields.map((field) => field.text as Token));
    const unknown = values.indexOf(undefined);
    if (unknown !== -1) {
      await countUnknown(context, request, fields, values);
      throw invalid(`${pathOf(data, fields[unknown]!)}: is not a known token`);
    }
    if (totalUnits(values as Value[]) > max_units) {
      throw invalid(
        `data: the values of these tokens have more than ${max_units} characters; send them in several requests`,
      );
    }
    replaceFields(fields, values as Value[]);
    const body = write(request, data);
    await audit(context, request, 'success', 200, fields.length);
    context.metrics.values('detokenize', fields.length);
    return answer(context, request, reply, 200, body, fields.length);
  };
}

function totalUnits(values: readonly Value[]): number {
  return values.reduce((units, value) => units + value.length, 0);
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
