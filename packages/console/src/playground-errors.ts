import { pathIn } from './json-place.ts';

/** The input that caused a failure, or the service, and the remedy. */
export type Failure = readonly [about: 'api_key' | 'text' | 'service', words: string];

/** @param verb the operation, for the message */
export function failureOf(status: number, body: unknown, verb: string): Failure {
  const json = (body ?? {}) as { readonly message?: string; readonly retry_after?: number };
  const { message = '', retry_after: retryAfter = 1 } = json;
  // It names the place of a kind that the client may not see.
  const isOfPlace = pathIn(message) !== undefined;
  const known: Record<number, Failure> = {
    400: ['text', message || 'The service does not accept this.'],
    401: ['api_key', 'The service does not know this API key: it is mistyped, expired or revoked.'],
    403: isOfPlace ? ['text', message] : ['api_key', `The client of this API key may not ${verb}.`],
    413: ['text', 'Too large: the setting BODY_LIMIT is the most that the service accepts.'],
    429: ['api_key', `A limit of this client is reached. Try again in ${retryAfter} s.`],
    503: ['service', 'The service is too busy at the moment. Try again.'],
  };
  return known[status] ?? ['service', message || `The service answered ${status}.`];
}
