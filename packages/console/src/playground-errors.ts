import { pathIn } from './json-place.ts';

/** An answer of the service, through the console. */
export interface Answered {
  readonly status: number;
  readonly body: unknown;
  readonly request_id: string;
}

/** The input that caused a failure, and the remedy. */
export interface Failure {
  readonly about: 'api_key' | 'text' | 'service';
  readonly words: string;
}

/** @param verb the operation, for the message */
export function failureOf({ status, body }: Answered, verb: string): Failure {
  const said = (name: string) => {
    const value = (body as Record<string, unknown> | null)?.[name];
    return value === undefined ? '' : String(value);
  };
  switch (status) {
    case 400:
      return { about: 'text', words: said('message') || 'The service does not accept this.' };
    case 401:
      return {
        about: 'api_key',
        words: 'The service does not know this API key: it is mistyped, expired or revoked.',
      };
    case 403:
      // It names the place of a kind that the client may not see.
      if (pathIn(said('message')) !== undefined) return { about: 'text', words: said('message') };
      return { about: 'api_key', words: `The client of this API key may not ${verb}.` };
    case 413:
      return {
        about: 'text',
        words: 'Too large: the setting BODY_LIMIT is the most that the service accepts.',
      };
    case 429:
      return {
        about: 'api_key',
        words: `A limit of this client is reached. Try again in ${said('retry_after') || '1'} s.`,
      };
    case 503:
      return { about: 'service', words: 'The service is too busy at the moment. Try again.' };
    default:
      return { about: 'service', words: said('message') || `The service answered ${status}.` };
  }
}
