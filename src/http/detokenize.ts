import type { CallerError } from '../errors.ts';
import type { TokenCounts } from '../service/limits/client-limits.ts';
import { requestDeadline } from '../service/threads/vault-client.ts';
import { isLong, mostValueBytes } from '../service/value-bytes.ts';
import type { Token, Value } from '../types.ts';
import type { ServerContext } from './context.ts';
import { type Field, invalid, pathOf, replaceFields } from './data.ts';
import { type Answer, type Exchange, LINE_END, successFrame } from './exchange.ts';
import { addRateLimit, admit, overLimit } from './guards.ts';
import { jsonBytes, largeAnswer, MAX_WHOLE_BYTES, mostJsonBytes } from './large-answer.ts';
import { jsonText } from './name-order.ts';
import { dataOf, type RequestData, readBody } from './request-body.ts';
import { MAX_ANSWER_BODIES } from './schema.ts';

/**
 * If more tokens than this do not bound their values' length, ask the vault for the sizes first.
 */
const MAX_UNSIZED = 4;

/** POST /api/v1/detokenize */
export function detokenizeHandler(context: ServerContext) {
  const frame = successFrame(context.interfaceVersion, 'detokenize');
  const maxBytes = Math.min(MAX_ANSWER_BODIES * context.bodyLimit, context.budget.largest);
  const needsNoMeasure = Math.min(maxBytes, MAX_WHOLE_BYTES);
  return async (exchange: Exchange): Promise<Answer> => {
    await admit(context, exchange, 'detokenize');
    const request = dataOf(context, exchange, await readBody(context, exchange));
    const { data, fields } = request;
    const found = await lookUp(context, exchange, fields, maxBytes);
    const missing = found.findIndex((one) => one === undefined || one === null);
    if (missing !== -1) throw invalid(`${pathOf(data, fields[missing]!)}: is not a known token`);
    const values = found as readonly Value[];
    const most = mostJsonBytes(values);
    const bytes = most <= needsNoMeasure ? most : jsonBytes(values);
    if (bytes > maxBytes) throw tooLarge(maxBytes);
    replaceFields(fields, values);
    const body = bodyOf(context, exchange, request, frame(exchange), bytes);
    return { status: 200, body, values: fields.length };
  };
}

function bodyOf(
  { budget }: ServerContext,
  exchange: Exchange,
  { data, order }: RequestData,
  frame: readonly [string, string],
  valueBytes: number,
) {
  if (valueBytes <= MAX_WHOLE_BYTES) return frame[0] + jsonText(data, order) + frame[1];
  const onTaken = () => budget.move(exchange.held!);
  const [before, after] = frame;
  const line = [before, `${after}${LINE_END}`] as const;
  const { body, bytes } = largeAnswer(data, line, valueBytes, onTaken, order);
  exchange.headers['Content-Length'] = String(bytes);
  return body;
}

/** A result of VaultClient.detokenize, or of `sizes` when some token is missing. */
type Found = Value | number | null | undefined;

/**
 * Looks the values up, and counts unknown tokens against their limit.
 * @returns the values; if a token is missing, possibly sizes instead of values
 */
async function lookUp(
  context: ServerContext,
  exchange: Exchange,
  fields: readonly Field[],
  maxBytes: number,
): Promise<readonly Found[]> {
  if (fields.length === 0) return [];
  const { limits, metrics } = context;
  const { client } = exchange.caller!;
  const reserved = limits.reserve(client);
  const refused = reserved instanceof Promise ? await reserved : reserved;
  if (refused !== undefined) {
    addRateLimit(exchange, refused);
    throw overLimit(context, refused);
  }
  let found: readonly Found[] = [];
  let counts: TokenCounts = { known: 0, unknown: 0 };
  try {
    found = await fetch(context, exchange, fields, maxBytes);
    counts = countTokens(fields, found, `_${context.tokenSuffix}`);
    exchange.unknownTokens = counts.unknown;
    metrics.unknownTokens(counts.unknown);
  } finally {
    const settled = limits.settle(client, counts);
    // Wait for every kind of missing token, so that the time of a 400 does not tell them apart.
    if (!found.every((one) => typeof one === 'string')) await settled;
  }
  return found;
}

/**
 * Reserves the bytes of the values before anything large is fetched.
 * @throws CallerError invalid_type when the answer would be too large, or overloaded
 */
function fetch(
  context: ServerContext,
  exchange: Exchange,
  fields: readonly Field[],
  maxBytes: number,
): Promise<readonly Found[]> {
  const tokens = fields.map((field) => field.text as Token);
  let most = 0;
  let unsized = 0;
  for (const token of tokens) {
    most += mostValueBytes(token);
    if (isLong(token)) unsized++;
  }
  if (unsized <= MAX_UNSIZED) {
    exchange.hold(context, most);
    return context.vault.detokenize(tokens);
  }
  return fetchLarge(context, exchange, tokens, maxBytes);
}

async function fetchLarge(
  context: ServerContext,
  exchange: Exchange,
  tokens: readonly Token[],
  maxBytes: number,
): Promise<readonly Found[]> {
  const deadlineMs = requestDeadline();
  const sizes = await context.vault.sizes(tokens, deadlineMs);
  if (!areKnown(sizes)) return sizes;
  if (sum(sizes) > maxBytes) throw tooLarge(maxBytes);
  // Equal tokens share one value.
  exchange.hold(context, sum(new Map(tokens.map((token, i) => [token, sizes[i]!])).values()));
  return context.vault.detokenize(tokens, sizes, deadlineMs);
}

function areKnown(sizes: readonly (number | null | undefined)[]): sizes is readonly number[] {
  return sizes.every((size) => typeof size === 'number');
}

function sum(sizes: Iterable<number>): number {
  let total = 0;
  for (const bytes of sizes) total += bytes;
  return total;
}

function tooLarge(maxBytes: number): CallerError {
  return invalid(
    `data: the values of these tokens have more than ${maxBytes} bytes as JSON; send them in several requests`,
  );
}

/**
 * Counts each token once. A forgotten or expired token is no guess. Neither is a string without a
 * token's ending, because its answer reveals nothing.
 */
function countTokens(
  fields: readonly Field[],
  found: readonly Found[],
  ending: string,
): TokenCounts {
  const known = new Set<string>();
  const unknown = new Set<string>();
  fields.forEach(({ text }, i) => {
    const one = found[i];
    if (one === undefined) {
      if (text.endsWith(ending)) unknown.add(text);
    } else if (one !== null) known.add(text);
  });
  return { known: known.size, unknown: unknown.size };
}
