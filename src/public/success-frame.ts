import type { ClientOperation } from '../limits/client-limits.ts';
import type { InterfaceVersion } from './context.ts';
import type { Exchange } from './exchange.ts';
import { type FieldContent, SUCCESS } from './schema.ts';

/**
 * Builds the text before and after `data` in a successful answer, with the names of the version.
 */
export function successFrame(version: InterfaceVersion, operation: ClientOperation) {
  const fields = Object.entries(SUCCESS[version][operation]);
  const last = fields.length - 1;
  return (exchange: Exchange): readonly [string, string] => {
    let before = '';
    let text = '{';
    for (let i = 0; i <= last; i++) {
      const [name, content] = fields[i]!;
      text += `"${name}":`;
      if (content === 'data') {
        before = text;
        text = '';
      } else text += contentOf(content, exchange);
      text += i === last ? '}' : ',';
    }
    return [before, text];
  };
}

/** Ids contain only characters that JSON does not escape. */
function contentOf(content: Exclude<FieldContent, 'data'>, exchange: Exchange): string {
  switch (content) {
    case 'status':
      return '"success"';
    case 'request_id':
      return `"${exchange.id}"`;
    case 'client_id':
      return `"${exchange.caller!.client.client_id}"`;
  }
}
