import { connect } from 'node:net';
import { expect } from 'vitest';
import type { Service } from './service.ts';

export interface RawAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** Sends a raw body with the service's API key. `headers` overrides headers; null removes one. */
export async function send(
  service: Service,
  path: string,
  body: string | Uint8Array | undefined,
  headers: Record<string, string | null> = {},
  method = 'POST',
): Promise<RawAnswer> {
  const all = {
    authorization: `Bearer ${service.api_key}`,
    'content-type': 'application/json',
    ...headers,
  };
  const kept = Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== null);
  // With a Buffer, fetch adds no content type.
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  const response = await fetch(service.url + path, {
    method,
    headers: Object.fromEntries(kept),
    ...(bytes === undefined ? {} : { body: bytes as never }),
  });
  const answer = {
    status: response.status,
    headers: response.headers,
    text: await response.text(),
  };
  if (!response.ok) expectErrorForm(answer, method);
  else if (answer.text !== '') expectLine(answer.text);
  return answer;
}

/** The interface defines their bodies. */
const WITHOUT_MESSAGE = ['unauthorized', 'user_limit', 'rate_limit'];

/** A terminal shows what follows on a line of its own. */
function expectLine(body: string): void {
  expect(body.slice(-2)).toBe('}\n');
}

/** A45: the structure of every error answer. */
export function expectErrorForm({ status, headers, text }: RawAnswer, method = 'POST'): void {
  expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(headers.get('cache-control')).toBe('no-store');
  expect(headers.get('x-content-type-options')).toBe('nosniff');
  expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
  expect(headers.has('www-authenticate')).toBe(status === 401);
  if (method === 'HEAD') return;
  expectLine(text);
  const body = JSON.parse(text);
  if (status === 503 && 'postgres' in body) return;
  expect(body.error).toMatch(/^[a-z_]+$/);
  expect('message' in body).toBe(!WITHOUT_MESSAGE.includes(body.error));
  if ('message' in body) expect(body.message).toMatch(/^\S.{5,}\S$/);
  expect(text).not.toMatch(/node_modules|\.js:|select |insert |fastify|postgres:/i);
}

/**
 * Writes bytes on a new connection. Resolves to all received bytes when the server ends the
 * connection, or sends nothing for a while.
 */
export function rawExchange(
  service: Service,
  bytes: string | Buffer,
  timeoutMs = 60_000,
  quietMs = 700,
): Promise<string> {
  const { hostname, port } = new URL(service.url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => socket.write(bytes));
    let received = '';
    // The server may keep the connection, so end it after a silence.
    socket.setTimeout(Math.min(timeoutMs, quietMs), () => socket.end());
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
    });
    socket.on('error', () => resolve(received));
    socket.on('close', () => resolve(received));
    setTimeout(() => reject(new Error(`no end: ${received}`)), timeoutMs).unref();
  });
}

/** The HTTP answers in the bytes of a connection. */
export function parseAnswers(received: string): RawAnswer[] {
  const answers: RawAnswer[] = [];
  for (let rest = received; rest.startsWith('HTTP/1.1 '); ) {
    const end = rest.indexOf('\r\n\r\n');
    const [first, ...lines] = rest.slice(0, end).split('\r\n');
    const headers = new Headers(lines.map((line) => line.split(': ', 2) as [string, string]));
    const length = Number(headers.get('content-length') ?? 0);
    answers.push({
      status: Number(first!.split(' ')[1]),
      headers,
      text: rest.slice(end + 4, end + 4 + length),
    });
    rest = rest.slice(end + 4 + length);
  }
  return answers;
}

/** Waits as long as Retry-After says. */
export function retryAfter(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
}
