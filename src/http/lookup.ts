import type { ServerContext } from './context.ts';
import { invalid } from './data.ts';
import type { Answer, Exchange } from './exchange.ts';
import { admit } from './guards.ts';
import { readBody } from './request-body.ts';
import { dataOf, kindsIn, type RequestData, valuesOf } from './request-data.ts';
import { successFrame } from './success-frame.ts';
import { inVault } from './tracing.ts';

/** POST /api/v1/lookup: the tokens that values have. Stores nothing. */
export function lookupHandler(context: ServerContext) {
  const frame = successFrame(context.interfaceVersion, 'lookup');
  return async (exchange: Exchange): Promise<Answer> => {
    const { client } = await admit(context, exchange, 'lookup');
    const request = await dataOf(context, exchange, await readBody(context, exchange));
    checkCount(request);
    checkDeterministic(request, client.token_mode === 'random');
    const accepted = valuesOf(context, exchange, request);
    const values = accepted instanceof Promise ? await accepted : accepted;
    const { deadlineMs } = exchange;
    const asked = context.vault.lookup(values, client, request.viewer, deadlineMs);
    const tokens = await inVault(exchange, asked);
    const [before, after] = frame(exchange);
    const body = before + request.json(tokens) + after;
    const { passed } = request;
    return { status: 200, body, values: tokens.length, passed, kinds: kindsIn(request) };
  };
}

/** Each look-up confirms or refutes a guess, so the limit of requests must bound them. */
const MAX_VALUES = 100;

/** @throws CallerError invalid_type */
function checkCount({ texts }: RequestData): void {
  if (texts.length > MAX_VALUES)
    throw invalid(`data: has more than ${MAX_VALUES} values; look them up in several requests`);
}

/** @throws CallerError invalid_type: equal values have different tokens */
function checkDeterministic(request: RequestData, isRandomClient: boolean): void {
  request.texts.forEach((_, i) => {
    const { name, tokens } = request.kindOf(i).settings;
    const isRandom = tokens === null ? isRandomClient : tokens === 'random';
    if (isRandom)
      throw invalid(
        `${request.pathOf(i)}: tokens of kind ${name} are random: none can be looked up`,
      );
  });
}
