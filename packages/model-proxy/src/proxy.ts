import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Answer } from './answer.ts';
import { failureBody, failureEvent, failureOf, ProxyError } from './failures.ts';
import { replaceTexts } from './request.ts';
import { ROUTES } from './routes.ts';
import { eventText, readEvents } from './sse.ts';
import { Vault } from './vault.ts';

export interface ProxyOptions {
  /** Of the provider, before `/v1`. */
  readonly upstreamUrl: string;
  readonly providerKey: string;
  readonly standinUrl: string;
  /** Whether images and files go to the provider as they are. */
  readonly passesFiles: boolean;
  /** Of a request, of an answer, and of an event in a stream. */
  readonly maxBodyBytes: number;
  /** For a request with its whole answer. */
  readonly timeoutMs: number;
  /** Requests at a time, with their streams. */
  readonly maxOpen: number;
  /** Called at the end of each request. */
  readonly onEnd?: (end: RequestEnd) => void;
}

export interface RequestEnd {
  readonly path: string;
  readonly status: number;
  readonly ms: number;
  /** Why it failed, without values and keys. */
  readonly reason?: string;
}

/** Until Standin has answered: long enough for its retries, short enough for a caller. */
const STANDIN_TIMEOUT_MS = 10_000;
/** Each is a request to Standin. */
const MAX_TEXTS = 2_000;
const MAX_PLACES = 50_000;
/** For the body of a request. */
const BODY_TIMEOUT_MS = 30_000;

/** Headers of requests that reach the provider. */
const SENT = /^(anthropic-(version|beta)|openai-beta)$/;
/** Headers of answers that reach the caller. */
const RETURNED =
  /^(x-request-id|request-id|retry-after(-ms)?|x-should-retry|openai-(model|processing-ms|version)|(x|anthropic)-ratelimit-[a-z-]+)$/;
const HEADER_VALUE = /^[\w.,:;= -]{1,300}$/;

/** One request, from its headers to the end of its answer. */
interface Exchange {
  readonly path: string;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly signal: AbortSignal;
}

/** A server in front of a provider: it sends tokens, and answers with the values. */
export function modelProxy(options: ProxyOptions): Server {
  let open = 0;
  const server = createServer(async (request, response) => {
    const startedMs = performance.now();
    const path = pathOf(request.url!);
    const left = new AbortController();
    response.on('close', () => left.abort());
    const late = AbortSignal.timeout(options.timeoutMs);
    const signal = AbortSignal.any([left.signal, late]);
    let reason: string | undefined;
    open++;
    try {
      if (open > options.maxOpen)
        throw new ProxyError(503, `There are ${options.maxOpen} open requests (--max-open).`);
      await answer({ path, request, response, signal }, options);
    } catch (error) {
      const failure = late.aborted
        ? new ProxyError(
            504,
            `The answer took longer than ${options.timeoutMs / 1000} s (--timeout).`,
          )
        : failureOf(error);
      reason = left.signal.aborted ? 'the caller left' : failure.message;
      fail({ path, request, response, signal }, failure);
    } finally {
      open--;
      const ms = Math.round(performance.now() - startedMs);
      const shownPath = Object.hasOwn(ROUTES, path) ? path : '*';
      const facts = { path: shownPath, status: response.statusCode, ms };
      options.onEnd?.({ ...facts, ...(reason !== undefined && { reason }) });
    }
  });
  server.requestTimeout = BODY_TIMEOUT_MS;
  return server;
}

/** SDKs of Anthropic add a query to beta paths. */
const pathOf = (url: string) => url.replace(/\?beta=true$/, '');

async function answer(exchange: Exchange, options: ProxyOptions): Promise<void> {
  const { path, request, response, signal } = exchange;
  const fields = Object.hasOwn(ROUTES, path) ? ROUTES[path] : undefined;
  const method = fields === null ? 'GET' : 'POST';
  if (fields === undefined || request.method !== method)
    throw new ProxyError(
      404,
      `The paths are ${Object.keys(ROUTES).join(', ')}; ${path === '/v1/models' ? 'GET' : 'POST'} is the method.`,
    );
  const vault = new Vault(options.standinUrl, apiKeyOf(request), STANDIN_TIMEOUT_MS, signal);
  const body = fields === null ? {} : await bodyOf(request, options.maxBodyBytes);
  const walk = { passesFiles: options.passesFiles };
  const texts = new Set<string>();
  let places = 0;
  const collect = (text: string) => {
    texts.add(text);
    if (texts.size > MAX_TEXTS || ++places > MAX_PLACES)
      throw new ProxyError(413, `More than ${MAX_TEXTS} different texts, or ${MAX_PLACES} in all.`);
    return text;
  };
  if (fields) replaceTexts(body, fields, { ...walk, replace: collect });
  // Without a text, no call of Standin would have checked the API key.
  if (texts.size === 0) await vault.check();
  const { replace, tokens } = await vault.tokenize(texts);
  const sent = fields && replaceTexts(body, fields, { ...walk, replace });
  const received = await fetch(options.upstreamUrl + path, {
    method,
    headers: headersFor(path, request, options.providerKey),
    redirect: 'error',
    signal,
    ...(sent && { body: JSON.stringify(sent) }),
  }).catch((error) => {
    signal.throwIfAborted();
    throw new ProxyError(
      502,
      `The provider does not answer (${error?.cause?.code ?? 'no reason given'}).`,
    );
  });
  const restored = new Answer(tokens, (token) => vault.restore(token), body);
  for (const [name, value] of received.headers)
    if (RETURNED.test(name)) response.setHeader(name, value);
  const isStream = received.headers.get('content-type')?.startsWith('text/event-stream');
  if (!isStream || received.body === null) {
    const text = await textOf(received.body ?? [], options.maxBodyBytes, 502);
    const made = JSON.stringify(await restored.whole(parsed(text, 502, 'The provider answered')));
    response.writeHead(received.status, { 'content-type': 'application/json' });
    return void response.end(made);
  }
  response.writeHead(received.status, EVENT_STREAM);
  response.flushHeaders();
  const events = readEvents(received.body, options.maxBodyBytes);
  for await (const event of restored.stream(path, events))
    if (!response.write(event)) await once(response, 'drain', { signal });
  response.end();
}

const EVENT_STREAM = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' };

function fail({ path, response }: Exchange, failure: ProxyError): void {
  if (response.headersSent) {
    const { name, data } = failureEvent(path, failure) as { name?: string; data: object };
    return void response.end(eventText({ name, data: JSON.stringify(data) }));
  }
  for (const name of response.getHeaderNames()) response.removeHeader(name);
  if (failure.retryAfterMs !== undefined)
    response.setHeader('retry-after', Math.ceil(failure.retryAfterMs / 1000));
  // A body that nobody reads would keep the connection open.
  response.writeHead(failure.status, { 'content-type': 'application/json', connection: 'close' });
  response.end(JSON.stringify(failureBody(path, failure)));
}

/** @throws ProxyError unless there is one API key, of a form that Standin knows */
function apiKeyOf({ headers }: IncomingMessage): string {
  const bearer = /^Bearer (\S+)$/i.exec(headers.authorization ?? '')?.[1];
  const keys = new Set([bearer, headers['x-api-key']].filter((key) => key !== undefined));
  const [key] = keys;
  if (keys.size !== 1 || typeof key !== 'string' || !API_KEY.test(key))
    throw new ProxyError(
      401,
      'Send your API key of Standin (stk_...) as the API key of the provider, in Authorization: Bearer or x-api-key. The key of the provider belongs to the proxy.',
    );
  return key;
}

/** As the client accepts it: an API key or a JWT. */
const API_KEY = /^(stk_[0-9A-Za-z]{34}|[\w-]+\.[\w-]+\.[\w-]+)$/;

function headersFor(path: string, { headers }: IncomingMessage, key: string) {
  const sent = Object.entries(headers).filter(([name, value]) => {
    if (!SENT.test(name)) return false;
    if (typeof value === 'string' && HEADER_VALUE.test(value)) return true;
    throw new ProxyError(400, `The header ${name} is not acceptable.`);
  }) as [string, string][];
  const ofProvider =
    path === '/v1/messages' ? { 'x-api-key': key } : { authorization: `Bearer ${key}` };
  const isPost = path !== '/v1/models';
  return {
    ...Object.fromEntries(sent),
    ...ofProvider,
    ...(isPost && { 'content-type': 'application/json' }),
    'user-agent': 'standin',
  };
}

async function bodyOf(request: IncomingMessage, maxBytes: number): Promise<object> {
  const { 'content-type': type = '', 'content-encoding': encoding } = request.headers;
  if (!/^application\/json\b/i.test(type) || encoding !== undefined)
    throw new ProxyError(400, 'Send Content-Type: application/json, and no Content-Encoding.');
  return parsed(await textOf(request, maxBytes), 400, 'The body is');
}

async function textOf(
  chunks: AsyncIterable<Uint8Array> | [],
  maxBytes: number,
  status = 413,
): Promise<string> {
  const read: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    if (bytes > maxBytes)
      throw new ProxyError(status, `More than ${maxBytes} bytes (--max-body-bytes).`);
    read.push(chunk);
  }
  return Buffer.concat(read).toString();
}

function parsed(text: string, status: number, subject: string): object {
  try {
    const body = JSON.parse(text);
    if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body;
  } catch {
    // The message of a SyntaxError would quote the text.
  }
  throw new ProxyError(status, `${subject} no JSON object.`);
}
