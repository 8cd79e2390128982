import type { FastifyRequest } from 'fastify';
import type { ClientOperation } from '../service/limits/client-limits.ts';
import type { JsonObject } from './body.ts';
import type { InterfaceVersion } from './context.ts';
import { type Meaning, SUCCESS } from './schema.ts';

/** Writes the body of a success in the names of the version. */
export function successWriter(version: InterfaceVersion, operation: ClientOperation) {
  const fields = Object.entries(SUCCESS[version][operation]);
  return (request: FastifyRequest, data: JsonObject): string => {
    const contents: Record<Meaning, unknown> = {
      data,
      status: 'success',
      request_id: request.id,
      client_id: request.caller!.client.client_id,
    };
    return JSON.stringify(
      Object.fromEntries(fields.map(([name, meaning]) => [name, contents[meaning]])),
    );
  };
}
