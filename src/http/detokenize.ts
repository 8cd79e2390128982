import type { FastifyReply, FastifyRequest } from 'fastify';
import type { TokenCounts } from '../service/limits/client-limits.ts';
import type { Token, Value } from '../types.ts';
import { answer } from './answer.ts';
import { audit } from './audit.ts';
import { invalid, parseData } from './body.ts';
import type { ServerContext } from './context.ts';
import { collectFields, type Field, pathOf, replaceFields } from './fields.ts';
import { overLimit } from './guards.ts';
import { addRateLimit } from './rate-limit-headers.ts';
import { MAX_ANSWER_BODIES } from './schema.ts';
import { successWriter } from './success.ts';

/** POST /api/v1/detokenize */
export function detokenizeHandler(context: ServerContext) {
  const write = successWriter(context.interface_version, 'detokenize');
  const max_units = MAX_ANSWER_BODIES * context.body_limit;
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const data = parseData(request.body as Buffer | undefined);
    const fields = collectFields(data, context.values_limit);
    const values = await lookUp(context, request, reply, fields);
    const unknown = values.findIndex((value) => value === undefined || value === null);
    if (unknown !== -1) throw invalid(`${pathOf(data, fields[unknown]!)}: is not a known token`);
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

/** The values of tokens, as VaultClient.detokenize; the limit of unknown tokens counts them. */
async function lookUp(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  fields: readonly Field[],
): Promise<readonly (Value | null | undefined)[]> {
  if (fields.length === 0) return [];
  const { limits, metrics, vault } = context;
  const { client } = request.caller!;
  const refused = await limits.reserve(client);
  if (refused !== undefined) {
    addRateLimit(reply, refused);
    throw overLimit(context, refused);
  }
  let values: readonly (Value | null | undefined)[] = [];
  let counts: TokenCounts = { known: 0, unknown: 0 };
  try {
    values = await vault.detokenize(fields.map((field) => field.text as Token));
    counts = countTokens(fields, values, `_${context.token_suffix}`);
    request.unknown_tokens = counts.unknown;
    metrics.unknownTokens(counts.unknown);
  } finally {
    const settled = limits.settle(client, counts);
    // The same way for each kind of missing token: the time of a 400 must not tell them apart.
    if (!values.every((value) => typeof value === 'string')) await settled;
  }
  return values;
}

/**
 * Each counts once, however often a request has it. A token that was forgotten or has expired is no
 * guess, and neither is what does not end as tokens do: nobody learns anything from its answer.
 */
function countTokens(
  fields: readonly Field[],
  values: readonly (Value | null | undefined)[],
  ending: string,
): TokenCounts {
  const known = new Set<string>();
  const unknown = new Set<string>();
  fields.forEach(({ text }, i) => {
    const value = values[i];
    if (value === undefined) {
      if (text.endsWith(ending)) unknown.add(text);
    } else if (value !== null) known.add(text);
  });
  return { known: known.size, unknown: unknown.size };
}
