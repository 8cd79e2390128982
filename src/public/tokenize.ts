import type { ClientOperation } from '../limits/client-limits.ts';
import { invalid } from './body/data.ts';
import { readBody } from './body/request-body.ts';
import { kindsIn, type Reader, type RequestValues, valuesOf } from './body/request-data.ts';
import { BEFORE_DATA, type Exchange, type ResponseContent } from './exchange.ts';
import { admit } from './guards.ts';

/**
 * POST /api/v1/tokenize and /api/v1/text/tokenize; POST /api/v1/lookup, which gives the tokens that
 * values have, and stores nothing.
 */
export function tokenizer(
  read: Reader<RequestValues>,
  operation: Exclude<ClientOperation, 'detokenize'> = 'tokenize',
) {
  return async (exchange: Exchange): Promise<ResponseContent> => {
    const { client } = await admit(exchange, operation);
    const request = await read(exchange, await readBody(exchange));
    if (operation === 'lookup') checkLookup(request, client.token_mode === 'random');
    const accepted = valuesOf(exchange, request);
    const values = accepted instanceof Promise ? await accepted : accepted;
    const { vault } = exchange.context;
    const asked = vault[operation](values, client, request.viewer, exchange.deadlineMs);
    const tokens = await exchange.inVault(asked);
    const body = BEFORE_DATA + request.json(tokens) + exchange.afterData();
    const { passed } = request;
    return { status: 200, body, values: tokens.length, passed, kinds: kindsIn(request) };
  };
}

/** Each look-up confirms or refutes a guess, so the limit of requests must bound them. */
const MAX_LOOKED_UP = 100;

/** @throws CallerError invalid_type, also for a kind of which equal values have different tokens */
function checkLookup(request: RequestValues, isRandomClient: boolean): void {
  const { texts } = request;
  if (texts.length > MAX_LOOKED_UP)
    throw invalid(`data: has more than ${MAX_LOOKED_UP} values; look them up in several requests`);
  texts.forEach((_, i) => {
    const { name, tokens } = request.kindOf(i).settings;
    const isRandom = tokens === null ? isRandomClient : tokens === 'random';
    if (isRandom)
      throw invalid(
        `${request.pathOf(i)}: tokens of kind ${name} are random: none can be looked up`,
      );
  });
}
