import type { FastifyRequest } from 'fastify';
import type { ClientOperation } from '../service/limits/client-limits.ts';
import type { JsonObject } from './body.ts';
import type { InterfaceVersion } from './context.ts';
import { type Meaning, SUCCESS } from './schema.ts';

/** Writes the body of a success in the names of the version. */
export function successWriter(version: InterfaceVersion, operation: ClientOperation) {
  const fields = Object.entries(SUCCESS[version][operation]);
  const last = fields.length - 1;
  return (request: FastifyRequest, data: JsonObject): string => {
    let body = '{';
    for (let i = 0; i <= last; i++) {
      const [name, meaning] = fields[i]!;
      body += `"${name}":${contentOf(meaning, request, data)}${i === last ? '}' : ','}`;
    }
    return body;
  };
}

/** Ids are of characters that JSON takes as they are. */
function contentOf(meaning: Meaning, request: FastifyRequest, data: JsonObject): string {
  switch (meaning) {
    case 'data':
      return JSON.stringify(data);
    case 'status':
      return '"success"';
    case 'request_id':
      return `"${request.id}"`;
    case 'client_id':
      return `"${request.caller!.client.client_id}"`;
  }
}
