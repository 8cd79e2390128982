import type { Value } from '../types.ts';
import type { ServerContext } from './context.ts';
import { replaceFields } from './data.ts';
import { type Answer, type Exchange, successFrame } from './exchange.ts';
import { admit } from './guards.ts';
import { jsonText } from './name-order.ts';
import { dataOf, readBody } from './request-body.ts';

/** POST /api/v1/tokenize */
export function tokenizeHandler(context: ServerContext) {
  const frame = successFrame(context.interfaceVersion, 'tokenize');
  return async (exchange: Exchange): Promise<Answer> => {
    const { client } = await admit(context, exchange, 'tokenize');
    const body = await readBody(context, exchange);
    const { data, fields, order } = dataOf(context, exchange, body);
    const values = fields.map((field) => field.text as Value);
    replaceFields(fields, await context.vault.tokenize(values, client));
    const [before, after] = frame(exchange);
    const text = before + jsonText(data, order) + after;
    return { status: 200, body: text, values: fields.length };
  };
}
