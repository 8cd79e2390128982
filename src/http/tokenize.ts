import type { ServerContext } from './context.ts';
import type { Answer, Exchange } from './exchange.ts';
import { admit } from './guards.ts';
import { readBody } from './request-body.ts';
import { kindsIn, type Reader, type RequestValues, valuesOf } from './request-data.ts';
import { successFrame } from './success-frame.ts';
import { inVault } from './tracing.ts';

/** POST /api/v1/tokenize and /api/v1/text/tokenize */
export function tokenizeHandler(context: ServerContext, read: Reader<RequestValues>) {
  const frame = successFrame(context.interfaceVersion, 'tokenize');
  return async (exchange: Exchange): Promise<Answer> => {
    const { client } = await admit(context, exchange, 'tokenize');
    const request = await read(context, exchange, await readBody(context, exchange));
    const accepted = valuesOf(context, exchange, request);
    const values = accepted instanceof Promise ? await accepted : accepted;
    const { deadlineMs } = exchange;
    const asked = context.vault.tokenize(values, client, request.viewer, deadlineMs);
    const tokens = await inVault(exchange, asked);
    const [before, after] = frame(exchange);
    const body = before + request.json(tokens) + after;
    const { passed } = request;
    return { status: 200, body, values: tokens.length, passed, kinds: kindsIn(request) };
  };
}
