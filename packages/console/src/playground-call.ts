import { API_KEY_HEADER, LENIENT, type Operation, PATHS } from './protocol.ts';
import { send } from './send.ts';

export const UNREACHABLE = 'The console cannot be reached. Try again.';
/** Longer than the console waits for the service. */
const TIMEOUT_MS = 30_000;

/** What the service answered. */
export interface Answered {
  readonly status: number;
  readonly body: {
    readonly data?: unknown;
    readonly unapplied?: readonly { readonly path: string; readonly reason: string }[];
  } | null;
  /** The body as it was sent. */
  readonly text: string;
  /** '': the console answered, not the service. */
  readonly requestId: string;
  /** Time from this page to the service and back. */
  readonly tookMs: number;
}

/** Why nothing can be sent with an API key; '': it can. */
export function keyProblem(apiKey: string): string {
  if (apiKey === '') return 'Type an API key first.';
  // Other characters cannot be in a header, so not in an API key.
  return /^[\x21-\x7e]+$/.test(apiKey) ? '' : 'This is not an API key.';
}

/**
 * Asks the service through the console. Sends the text as typed, so that the service, not this
 * page, validates it.
 * @throws TypeError, DOMException if the console is unreachable
 */
export async function call(
  operation: Operation,
  apiKey: string,
  data: string,
  isLenient = false,
): Promise<Answered> {
  const beganMs = performance.now();
  const response = await send(PATHS[operation], {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      [API_KEY_HEADER]: apiKey,
      ...(isLenient && { Prefer: LENIENT }),
    },
    body: `{"data":${data}}`,
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  const text = await response.text();
  const tookMs = performance.now() - beganMs;
  const { status, headers } = response;
  const body = headers.get('Content-Type')?.startsWith('application/json') && JSON.parse(text);
  return { status, body, text, requestId: headers.get('X-Request-Id') ?? '', tookMs };
}
