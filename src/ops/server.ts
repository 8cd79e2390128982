import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { finished } from 'node:stream/promises';
import { Hono, type MiddlewareHandler } from 'hono';
import { etag } from 'hono/etag';
import { methodNotAllowed } from 'hono/method-not-allowed';
import type { ByteBudget } from '../limits/byte-budget.ts';
import type { Metrics } from '../observe/metrics.ts';
import { createListener, endConnection } from '../public/transport/connections.ts';
import { inTurn, refuseUnparsed } from '../public/transport/pipelining.ts';
import type { TlsPem } from '../types.ts';
import { checkHost, checkNotEmbedded, checkSameOrigin, isAllowed, type SignIn } from './access.ts';
import { type OpsError, refusal, refusalOf } from './errors.ts';
import { alreadySent, isReading, type OpsApp, type OpsContext, type OpsEnv } from './web.ts';

/** A page that does not change while the process runs. */
export interface OpsPage {
  readonly content_type: string;
  readonly body: string | Buffer<ArrayBuffer>;
  /** Served without sign-in. */
  readonly isOpen?: boolean;
}

interface OpsServerOptions {
  readonly metrics: Metrics;
  /** undefined: OPS_TOKEN is not set. */
  readonly signIn: SignIn | undefined;
  /** By path. */
  readonly pages: ReadonlyMap<string, OpsPage>;
  /** Paths that need no sign-in, or decide themselves who may ask. */
  readonly isOpen: (path: string) => boolean;
  /** Each adds its routes. */
  readonly routes: readonly ((app: OpsApp) => void)[];
  /** undefined: HTTP in clear. */
  readonly tls: TlsPem | undefined;
  readonly budget: ByteBudget;
  /** Called for failures that are not the caller's fault. */
  readonly onFailure: (error: unknown) => void;
}

const MAX_CONNECTIONS = 500;
/** Of a connection: operators' tools wait for a response before the next request. */
const MAX_IN_HAND = 1;
const MAX_AHEAD = 16;
/** A caller who guesses, or whom a browser or proxy sends here by mistake, has to connect again. */
const ENDING = ['bad_request', 'misdirected', 'too_many', 'unauthorized'];
const NO_PATH =
  'There is no such path. The console is at /, and /admin/v1/openapi.json has the paths of the admin API.';
/** On every response: pages load nothing from other sites, and no other site can embed them. */
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
  const { tls, budget, onFailure } = options;
  const app = opsApp(options);
  const listener = (incoming: IncomingMessage, outgoing: ServerResponse) => {
    for (const [name, value] of Object.entries(HEADERS)) outgoing.setHeader(name, value);
    respond(app, incoming, outgoing).catch((error) => {
      onFailure(error);
      outgoing.destroy();
    });
  };
  // The callers' listener shares this event loop, so the same bounds hold here.
  const route = inTurn(listener, budget, MAX_IN_HAND, MAX_AHEAD);
  const server = createListener(route, tls, { connections: MAX_CONNECTIONS });
  refuseUnparsed(server);
  return server;
}

/** Handlers get HEAD as GET, and Node leaves the body out. */
async function respond(
  app: OpsApp,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const { url, method, headers } = incoming;
  const query = url!.split('?').slice(1).join('?');
  const request = new Request(`http://ops/?${query}`, {
    // Fetch knows no TRACE, and no route has it.
    method: method === 'HEAD' ? 'GET' : method === 'TRACE' ? 'OPTIONS' : method!,
    // Only what Hono itself reads.
    headers: { cookie: headers.cookie ?? '', 'if-none-match': headers['if-none-match'] ?? '' },
  });
  const response = await app.fetch(request, { incoming, outgoing });
  if (outgoing.headersSent) return;
  outgoing.statusCode = response.status;
  outgoing.setHeaders(response.headers).end(Buffer.from(await response.arrayBuffer()));
}

function opsApp({ metrics, signIn, pages, isOpen, routes, onFailure }: OpsServerOptions): OpsApp {
  const app: OpsApp = new Hono({ getPath: pathOf });
  app.onError(async (error, c) => {
    const { incoming } = c.env;
    const refused = refusalOf(error);
    if (refused.status === 500 && !incoming.socket.destroyed) onFailure(error);
    // A caller that still sends would not read a response. requestTimeout bounds the wait.
    await finished(incoming.resume()).catch(() => {});
    // Nothing of a response that was ready before the error, such as its ETag.
    c.res = undefined;
    return refuse(c, refused);
  });
  app.notFound((c) => refuse(c, refusal('not_found', NO_PATH)));
  app.use(notAllowed(app), async (c, next) => {
    checkHost(c.env.incoming, signIn !== undefined);
    const { path } = c.req;
    if (!isOpen(path) && !pages.get(path)?.isOpen && !isAllowed(c, signIn))
      throw refusal('unauthorized', 'Send the OPS_TOKEN as a bearer token, or sign in.');
    await next();
  });
  app.use('/console/*', (c, next) => {
    const { incoming } = c.env;
    if (isReading(incoming)) checkNotEmbedded(incoming);
    else checkSameOrigin(incoming);
    return next();
  });
  app.get('/metrics', async (c) =>
    c.body(await metrics.text(), 200, { 'Content-Type': metrics.content_type }),
  );
  for (const [path, { content_type: type, body }] of pages) {
    // Browsers revalidate each time: an old page must not call an upgraded service.
    const headers = { 'Content-Type': type, 'Cache-Control': 'no-cache' };
    app.get(path, etag(), (c) => c.body(body, 200, headers));
  }
  for (const add of routes) add(app);
  return app;
}

/** Letter for letter: a proxy before this listener may judge by another reading of the path. */
function pathOf(_: Request, options?: { env?: OpsEnv['Bindings'] }): string {
  return options!.env!.incoming.url!.split('?', 1)[0]!;
}

/** Refuses requests of a path that has other methods. */
export function notAllowed(app: OpsApp): MiddlewareHandler<OpsEnv> {
  const onMethodNotAllowed = (c: OpsContext, methods: readonly string[]) => {
    c.env.outgoing.setHeader('Allow', methods.join(', '));
    const useful = methods.filter((one) => one !== 'HEAD').join(' or ');
    throw refusal('method_not_allowed', `Use ${useful}.`);
  };
  return methodNotAllowed({ app: app as unknown as Hono, onMethodNotAllowed } as never);
}

function refuse(c: OpsContext, { status, code, message }: OpsError): Response {
  const { incoming, outgoing } = c.env;
  // The response has begun, so its status cannot change.
  if (outgoing.headersSent) {
    outgoing.destroy();
    return alreadySent(c);
  }
  const isAdmin = c.req.path.startsWith('/admin/');
  if (ENDING.includes(code)) {
    endConnection(incoming.socket);
    outgoing.setHeader('Connection', 'close');
  }
  if (status === 401)
    outgoing.setHeader('WWW-Authenticate', `Bearer realm="standin ${isAdmin ? 'admin' : 'ops'}"`);
  if (status === 429 || status === 503) outgoing.setHeader('Retry-After', 1);
  const isJson = isAdmin || c.req.path.startsWith('/console/');
  const text = isJson ? JSON.stringify({ error: code, message }) : `${message}\n`;
  const type = isJson ? 'application/json' : 'text/plain; charset=utf-8';
  return new Response(text, { status, headers: { 'Content-Type': type } });
}
