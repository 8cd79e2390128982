import type { Value } from '../types.ts';
import type { ServerContext } from './context.ts';
import { collectFields, parseData, replaceFields } from './data.ts';
import { type Answer, type Exchange, successFrame } from './exchange.ts';
import { admit } from './guards.ts';
import { readBody } from './request-body.ts';

/** POST /api/v1/tokenize */
export function tokenizeHandler(context: ServerContext) {
  const frame = successFrame(context.interfaceVersion, 'tokenize');
  return async (exchange: Exchange): Promise<Answer> => {
    const { client } = await admit(context, exchange, 'tokenize');
    const data = parseData(await readBody(context, exchange));
    const fields = collectFields(data, context.valuesLimit);
    exchange.holdFields(context, fields.length);
    const values = fields.map((field) => field.text as Value);
    replaceFields(fields, await context.vault.tokenize(values, client));
    const [before, after] = frame(exchange);
    const body = before + JSON.stringify(data) + after;
    return { status: 200, body, values: fields.length };
  };
}
