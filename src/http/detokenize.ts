import type { FastifyReply, FastifyRequest } from 'fastify';
import type { CallerError } from '../errors.ts';
import { isLong, mostValueBytes } from '../service/value-bytes.ts';
import type { Token, Value } from '../types.ts';
import { answer } from './answer.ts';
import { audit } from './audit.ts';
import { invalid, type JsonObject, parseData } from './body.ts';
import type { ServerContext } from './context.ts';
import { collectFields, type Field, pathOf, replaceFields } from './fields.ts';
import { hold, holdFields } from './held.ts';
import { jsonBytes, largeAnswer, MAX_WHOLE_BYTES, mostJsonBytes } from './large-answer.ts';
import { MAX_ANSWER_BODIES } from './schema.ts';
import { successFrame } from './success.ts';

/** With more tokens of unknown length, the vault is asked how long the values are. */
const MAX_UNSIZED = 4;

/** POST /api/v1/detokenize */
export function detokenizeHandler(context: ServerContext) {
  const frame = successFrame(context.interface_version, 'detokenize');
  const max_bytes = Math.min(MAX_ANSWER_BODIES * context.body_limit, context.budget.largest);
  const needs_no_measure = Math.min(max_bytes, MAX_WHOLE_BYTES);
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const data = parseData(request.body as Buffer | undefined);
    const fields = collectFields(data, context.values_limit);
    holdFields(context, request, fields.length);
    const tokens = fields.map((field) => field.text as Token);
    const refuseUnknown = (found: readonly unknown[]) =>
      refuseIfUnknown(context, request, data, fields, found);
    const sizes = await admitValues(context, request, tokens, max_bytes, refuseUnknown);
    const values = (await context.vault.detokenize(tokens, sizes)) as Value[];
    await refuseUnknown(values);
    const most = mostJsonBytes(values);
    const bytes = most <= needs_no_measure ? most : jsonBytes(values);
    if (bytes > max_bytes) throw tooLarge(max_bytes);
    replaceFields(fields, values);
    const body = bodyOf(context, request, reply, data, frame(request), bytes);
    await audit(context, request, 'success', 200, fields.length);
    context.metrics.values('detokenize', fields.length);
    return answer(context, request, reply, 200, body, fields.length);
  };
}

function bodyOf(
  { budget }: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  data: JsonObject,
  frame: readonly [string, string],
  value_bytes: number,
) {
  if (value_bytes <= MAX_WHOLE_BYTES) return frame[0] + JSON.stringify(data) + frame[1];
  const onTaken = () => budget.move(request.held!);
  const { body, bytes } = largeAnswer(data, frame, value_bytes, onTaken);
  reply.header('Content-Length', bytes);
  return body;
}

/**
 * Has the request hold what its values will take, before anything large is fetched.
 * @returns the size of each value, where the vault was asked for them
 * @throws CallerError invalid_type when the answer would be too large, or overloaded
 */
async function admitValues(
  context: ServerContext,
  request: FastifyRequest,
  tokens: readonly Token[],
  max_bytes: number,
  refuseUnknown: (found: readonly unknown[]) => Promise<void>,
): Promise<readonly number[] | undefined> {
  let most = 0;
  let unsized = 0;
  for (const token of tokens) {
    most += mostValueBytes(token);
    if (isLong(token)) unsized++;
  }
  if (unsized <= MAX_UNSIZED) {
    hold(context, request, most);
    return undefined;
  }
  const found = await context.vault.sizes(tokens);
  await refuseUnknown(found);
  const sizes = found as readonly number[];
  if (sum(sizes) > max_bytes) throw tooLarge(max_bytes);
  // Equal tokens share one value.
  hold(context, request, sum(new Map(tokens.map((token, i) => [token, sizes[i]!])).values()));
  return sizes;
}

function sum(sizes: Iterable<number>): number {
  let total = 0;
  for (const bytes of sizes) total += bytes;
  return total;
}

function tooLarge(max_bytes: number): CallerError {
  return invalid(
    `data: the values of these tokens have more than ${max_bytes} bytes as JSON; send them in several requests`,
  );
}

/** @param found what there is of each field, undefined where its token is not known */
async function refuseIfUnknown(
  { metrics, limits }: ServerContext,
  request: FastifyRequest,
  data: JsonObject,
  fields: readonly Field[],
  found: readonly unknown[],
): Promise<void> {
  const first = found.indexOf(undefined);
  if (first === -1) return;
  // Each counts once, however often a request has it.
  const unknown = new Set(fields.filter((_, i) => found[i] === undefined).map(({ text }) => text));
  request.unknown_tokens = unknown.size;
  metrics.unknownTokens(unknown.size);
  await limits.spendUnknown(request.caller!.client, unknown.size);
  throw invalid(`${pathOf(data, fields[first]!)}: is not a known token`);
}
