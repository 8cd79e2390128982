import type { ClientOperation } from '../limits/client-limits.ts';
import type { Exchange } from './exchange.ts';
import { type FieldContent, SUCCESS } from './schema.ts';

/** Ids contain only characters that JSON does not escape. */
const CONTENTS: Record<Exclude<FieldContent, 'data'>, (exchange: Exchange) => string> = {
  status: () => 'success',
  request_id: ({ id }) => id,
  client_id: ({ caller }) => caller!.client.client_id,
};

export const BEFORE_DATA = '{"data":';

/** The text after `data` in a successful response, with the names of the version. */
export function afterData(exchange: Exchange, operation: ClientOperation): string {
  const names = SUCCESS[exchange.context.interfaceVersion][operation];
  let text = '';
  for (const name in names) {
    const content = names[name]!;
    if (content !== 'data') text += `,"${name}":"${CONTENTS[content](exchange)}"`;
  }
  return `${text}}`;
}
