import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { finished } from 'node:stream/promises';
import { endConnection } from '../http/connections.ts';
import { parseObject } from '../http/data.ts';
import { createListener } from '../http/listener.ts';
import { refuseUnparsed } from '../http/parser-errors.ts';
import { inTurn } from '../http/pipelining.ts';
import type { Metrics } from '../metrics.ts';
import type { ByteBudget } from '../service/limits/byte-budget.ts';
import type { TlsPem } from '../types.ts';
import type { Access } from './access.ts';

const TEXT = 'text/plain; charset=utf-8';
const JSON_TYPE = 'application/json; charset=utf-8';

type Handler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** Handlers by method. GET also serves HEAD. */
export interface Route {
  readonly GET?: Handler;
  readonly POST?: Handler;
  readonly DELETE?: Handler;
  /** Served without sign-in. */
  readonly isOpen?: boolean;
}

/** A page that does not change while the process runs. */
export interface OpsPage {
  readonly content_type: string;
  readonly body: string | Buffer;
  readonly etag?: string;
  readonly isOpen?: boolean;
}

interface OpsServerOptions {
  readonly metrics: Metrics;
  readonly access: Access;
  /** By path. */
  readonly routes: ReadonlyMap<string, Route>;
  readonly pages: ReadonlyMap<string, OpsPage>;
  /** Answers paths below /admin/, and decides who may; undefined: there are none. */
  readonly admin: Handler | undefined;
  /** undefined: HTTP in clear. */
  readonly tls: TlsPem | undefined;
  readonly budget: ByteBudget;
  /** Called for failures that are not the caller's fault. */
  readonly onFailure: (error: unknown) => void;
}

/** A refused request. The message tells the caller what to do. */
export class Refusal extends Error {
  readonly status: number;
  /** The reason, for programs. */
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const MAX_CONNECTIONS = 500;
/** Of a connection: operators' tools wait for an answer before the next request. */
const MAX_IN_HAND = 1;
const MAX_AHEAD = 16;
/** A caller who guesses, or whom a browser or proxy sends here by mistake, has to connect again. */
const ENDING = ['bad_request', 'misdirected', 'too_many', 'unauthorized'];
/** On every answer: pages load nothing from other sites, and no other site can embed them. */
const HEADERS = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
};

/** The ops listener: for operators and their tools, never for callers. */
export function createOpsServer(options: OpsServerOptions): Server {
  const { metrics, onFailure, tls, budget } = options;
  const routes = new Map(options.routes);
  for (const [path, page] of options.pages) routes.set(path, pageRoute(page));
  routes.set('/metrics', {
    GET: async (_, response) => answer(response, 200, metrics.content_type, await metrics.text()),
  });
  const listener = (request: IncomingMessage, response: ServerResponse) => {
    for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
    respond({ ...options, routes }, request, response).catch(async (error) => {
      const refusal = error instanceof Refusal ? error : undefined;
      if (refusal === undefined && !request.socket.destroyed) onFailure(error);
      // A caller that still sends would not read an answer. requestTimeout bounds the wait.
      await finished(request.resume()).catch(() => {});
      refuse(request, response, refusal ?? UNEXPECTED);
    });
  };
  // The callers' listener shares this event loop, so the same bounds hold here.
  const route = inTurn(listener, budget, MAX_IN_HAND, MAX_AHEAD);
  const server = createListener(route, tls, { connections: MAX_CONNECTIONS });
  refuseUnparsed(server);
  return server;
}

const UNEXPECTED = new Refusal(
  500,
  'internal_error',
  'The request failed. See the log of the service.',
);

async function respond(
  { routes, access, admin }: Pick<OpsServerOptions, 'routes' | 'access' | 'admin'>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  access.checkHost(request);
  if (admin !== undefined && isForAdmin(request)) return admin(request, response);
  const route = routes.get(pathOf(request));
  if (route === undefined) throw notFound(routes);
  if (!route.isOpen) access.checkAllowed(request);
  const handler = route[(request.method === 'HEAD' ? 'GET' : request.method) as 'GET'];
  if (handler === undefined) {
    const allowed = METHODS.filter((name) => route[name] !== undefined);
    const names = allowed.flatMap((name) => (name === 'GET' ? ['GET', 'HEAD'] : [name]));
    response.setHeader('Allow', names.join(', '));
    throw new Refusal(405, 'method_not_allowed', `Use ${allowed.join(' or ')}.`);
  }
  await handler(request, response);
}

function notFound(routes: ReadonlyMap<string, Route>): Refusal {
  const paths = [...routes.keys()].filter((path) => !/^\/(assets|console)\//.test(path));
  return new Refusal(404, 'not_found', `Not found. The paths are ${paths.join(', ')}.`);
}

const METHODS = ['GET', 'POST', 'DELETE'] as const;

function pageRoute({ content_type: contentType, body, etag, isOpen = false }: OpsPage): Route {
  return {
    isOpen,
    async GET({ headers }, response) {
      // Browsers revalidate each time: an old page must not call an upgraded service.
      response.setHeader('Cache-Control', 'no-cache');
      if (etag !== undefined) response.setHeader('ETag', etag);
      const isKnown = etag !== undefined && headers['if-none-match'] === etag;
      if (isKnown) response.writeHead(304).end();
      else answer(response, 200, contentType, body);
    },
  };
}

function refuse(request: IncomingMessage, response: ServerResponse, refusal: Refusal): void {
  const { status, code, message } = refusal;
  // The answer has begun, so its status cannot change.
  if (response.headersSent) return void response.destroy();
  const isAdmin = isForAdmin(request);
  const realm = isAdmin ? 'standin admin' : 'standin ops';
  if (ENDING.includes(code)) {
    endConnection(request.socket);
    response.setHeader('Connection', 'close');
  }
  if (status === 401) response.setHeader('WWW-Authenticate', `Bearer realm="${realm}"`);
  if (isAdmin || pathOf(request).startsWith('/console/')) {
    answerJson(response, status, { error: code, message });
  } else answer(response, status, TEXT, `${message}\n`);
}

function isForAdmin(request: IncomingMessage): boolean {
  return pathOf(request).startsWith('/admin/');
}

export function pathOf({ url }: IncomingMessage): string {
  return url!.split('?', 1)[0]!;
}

/** The body of a request with a JSON content type. @throws Refusal */
export async function readJson(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const types = request.headersDistinct['content-type'] ?? [];
  if (types.length !== 1 || !/^application\/json *(;|$)/i.test(types[0]!)) {
    throw new Refusal(415, 'unsupported_media_type', 'Send Content-Type: application/json.');
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    // Read to the end even so: leaving the loop early would destroy the connection.
    if (bytes <= maxBytes) chunks.push(chunk);
  }
  if (bytes > maxBytes) {
    throw new Refusal(413, 'payload_too_large', `The body is larger than ${maxBytes} bytes.`);
  }
  return Buffer.concat(chunks);
}

/**
 * The token of a sign-in.
 * @throws Refusal
 */
export async function readToken(
  request: IncomingMessage,
  maxBytes: number,
  remedy: string,
): Promise<string> {
  const body = await readJson(request, maxBytes);
  try {
    const { token } = parseObject(body, 'a JSON object').json;
    if (typeof token === 'string') return token;
  } catch {
    // Refused below, like every other wrong body.
  }
  throw new Refusal(400, 'bad_request', remedy);
}

function answer(
  response: ServerResponse,
  status: number,
  contentType: string,
  body: string | Buffer,
): void {
  response.writeHead(status, { 'Content-Type': contentType }).end(body);
}

export function answerJson(response: ServerResponse, status: number, body: unknown): void {
  answer(response, status, JSON_TYPE, JSON.stringify(body));
}
