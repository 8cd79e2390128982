import { feed } from './feed.ts';
import { type About, failureOf } from './playground-data.ts';
import { API_KEY_HEADER, LENIENT, type Operation, PATHS } from './protocol.ts';
import { send } from './send.ts';

/** Longer than the console waits for the service. */
const TIMEOUT_MS = 30_000;

/** What the service answered. */
export interface Answered<T = unknown> {
  readonly body: {
    readonly data: T;
    readonly unapplied?: readonly { readonly path: string; readonly reason: string }[];
  };
  /** The body as it was sent. */
  readonly text: string;
  readonly requestId: string;
}

/** A call that failed. The message is the remedy. */
export class Failure extends Error {
  readonly about: About;
  readonly requestId: string;

  constructor(about: About, words: string, requestId = '') {
    super(words);
    this.about = about;
    this.requestId = requestId;
  }
}

/**
 * Asks the service through the console. Sends the text as typed, so that the service, not this
 * page, validates it.
 * @throws Failure
 */
export async function call<T>(
  operation: Operation,
  apiKey: string,
  data: string,
  isLenient = false,
): Promise<Answered<T>> {
  const key = apiKey.trim();
  if (key === '') throw new Failure('api-key', 'Type an API key first.');
  // Other characters cannot be in a header, so not in an API key.
  if (!/^[\x21-\x7e]+$/.test(key)) throw new Failure('api-key', 'This is not an API key.');
  const sent = send(PATHS[operation], {
    method: 'POST',
    headers: {
      ...{ 'Content-Type': 'application/json', [API_KEY_HEADER]: key },
      ...(isLenient && { Prefer: LENIENT }),
    },
    body: `{"data":${data}}`,
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  const read = sent.then(async (response) => ({ response, text: await response.text() }));
  const { response, text } = await read.catch(() => {
    throw new Failure('service', 'The console cannot be reached. Try again.');
  });
  const requestId = response.headers.get('X-Request-Id') ?? '';
  // The console answered, not the service.
  if (response.status === 401 && requestId === '') feed.signedOut();
  const body = JSON.parse(text);
  if (response.ok) return { body, text, requestId };
  throw new Failure(...failureOf(response.status, body), requestId);
}
