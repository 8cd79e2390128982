import { placeOf } from './json-place.ts';
import type { Answered } from './playground-errors.ts';
import { API_KEY_HEADER, LENIENT, type Operation, PATHS } from './protocol.ts';
import { send } from './send.ts';

export interface Timed extends Answered {
  /** Time from this page to the service and back. */
  readonly tookMs: number;
  /** `data` of the answer, as it was sent; '' without it. */
  readonly data: string;
}

/** Longer than the console waits for the service. */
const TIMEOUT_MS = 30_000;

/**
 * Asks the service through the console. Sends the text as typed, so that the service, not this
 * page, validates it. undefined: the console requires a sign-in.
 * @param text JSON, the `data` of the request
 * @param isLenient whether the answer may have gaps
 * @throws TypeError, DOMException if the console is unreachable
 */
export async function ask(
  operation: Operation,
  apiKey: string,
  text: string,
  isLenient: boolean,
): Promise<Timed | undefined> {
  const beganMs = performance.now();
  const response = await send(PATHS[operation], {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      [API_KEY_HEADER]: apiKey,
      ...(isLenient && { Prefer: LENIENT }),
    },
    body: `{"data":${text}}`,
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  const answer = await response.text();
  const tookMs = performance.now() - beganMs;
  const requestId = response.headers.get('X-Request-Id') ?? '';
  // A 401 of the service has a request id; the console's own has none.
  if (response.status === 401 && requestId === '') return undefined;
  const body = parsed(answer);
  const place = body === null ? undefined : placeOf(answer, ['data']);
  const data = place === undefined ? '' : answer.slice(place.begin, place.end);
  return { status: response.status, body, data, request_id: requestId, tookMs };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
