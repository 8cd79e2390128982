import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Context, Hono } from 'hono';
import { checkedText, parseObject } from '../public/body/data.ts';
import { refusal } from './errors.ts';

/** The context of a handler of the ops listener: that of Hono, with Node's request and response. */
export interface OpsEnv {
  readonly Bindings: { readonly incoming: IncomingMessage; readonly outgoing: ServerResponse };
}

export type OpsContext = Context<OpsEnv>;
export type OpsApp = Hono<OpsEnv>;

/** Whether a request can change nothing, whatever its path. */
export function isReading({ method }: IncomingMessage): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** For a handler that has written its response itself. */
export function alreadySent(c: OpsContext): Response {
  return c.body(null);
}

/** The body of a request with a JSON content type. @throws Refusal */
export async function readJson(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const types = request.headersDistinct['content-type'] ?? [];
  if (types.length !== 1 || !/^application\/json *(;|$)/i.test(types[0]!)) {
    throw refusal('unsupported_media_type', 'Send Content-Type: application/json.');
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    // Read to the end even so: leaving the loop early would destroy the connection.
    if (bytes <= maxBytes) chunks.push(chunk);
  }
  if (bytes > maxBytes) {
    throw refusal('payload_too_large', `The body is larger than ${maxBytes} bytes.`);
  }
  return Buffer.concat(chunks);
}

const MAX_SIGN_IN_BYTES = 4_096;

/** The token of a sign-in. @throws Refusal */
export async function readToken({ env }: OpsContext, remedy: string): Promise<string> {
  const body = await readJson(env.incoming, MAX_SIGN_IN_BYTES);
  try {
    const { token } = parseObject(checkedText(body), '');
    if (typeof token === 'string') return token;
  } catch {
    // Refused below, like every other wrong body.
  }
  throw refusal('bad_request', remedy);
}
