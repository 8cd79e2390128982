import { existsSync, readdirSync, readFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { createRequire } from 'node:module';
import { extname } from 'node:path';
import { finished } from 'node:stream/promises';
import {
  API_KEY_HEADER,
  type ClientDetail,
  OPERATIONS,
  type Operation,
  PATHS,
  type RecentRequestsShown,
} from '#console';
import { CallerError, Unavailable } from '../../errors.ts';
import type { RecentRequests } from '../../observe/recent-requests.ts';
import { documentText, openApiDocument } from '../../openapi/document.ts';
import { referenceHtml } from '../../openapi/reference.ts';
import { MESSAGES } from '../../public/schema.ts';
import { isAllowed, type SignIn } from '../access.ts';
import { OpsError, refusal } from '../errors.ts';
import type { OpsPage } from '../server.ts';
import { alreadySent, type OpsApp, type OpsContext, readToken } from '../web.ts';
import type { CurrentState } from './current-state.ts';
import type { EventStreams } from './events.ts';

/** The page with its header, which asks for a sign-in where one is needed. */
const REFERENCE_VIEW = '/#/reference';

/** Paths without sign-in, besides pages. */
export const OPEN: readonly string[] = [PATHS.session, '/reference'];

interface ConsoleParts extends PlaygroundParts {
  /** undefined: OPS_TOKEN is not set. */
  readonly signIn: SignIn | undefined;
  readonly state: CurrentState;
  readonly events: EventStreams;
  readonly recent: RecentRequests;
}

/** Adds the routes of the console. */
export function addConsole(app: OpsApp, parts: ConsoleParts): void {
  const { signIn, state, events, recent } = parts;
  app.get(PATHS.state, async (c) => c.json(await state.read()));
  app.get(PATHS.events, (c) => events.open(c, () => isAllowed(c, signIn)));
  app.get(PATHS.requests, (c) => c.json(recent.newest satisfies RecentRequestsShown));
  app.get(PATHS.client, async (c) => {
    const client = state.client(c.req.query('id') ?? '');
    return c.json(await found(client, 'There is no such client.'));
  });
  app.get(PATHS.policy, async (c) => c.json(await state.policy()));
  app.post(PATHS.apiKey, async (c) => {
    const apiKey = String(c.env.incoming.headers[API_KEY_HEADER.toLowerCase()] ?? '');
    return c.json(await found(state.clientOf(apiKey), 'No API key is this one.'));
  });
  for (const operation of OPERATIONS) app.post(PATHS[operation], (c) => play(operation, c, parts));
  app.post(PATHS.session, (c) => begin(signIn, c));
  app.delete(PATHS.session, (c) => {
    signIn?.end(c);
    return c.body(null, 204);
  });
  app.get('/reference', (c) => c.redirect(REFERENCE_VIEW));
}

/** @throws Refusal */
async function found(
  asked: Promise<ClientDetail<Date> | undefined>,
  missing: string,
): Promise<ClientDetail<Date>> {
  const client = await asked.catch((error) => {
    if (!(error instanceof Unavailable)) throw error;
    throw new OpsError(503, 'database_unavailable', 'The database does not answer.');
  });
  if (client === undefined) throw refusal('not_found', missing);
  return client;
}

async function begin(signIn: SignIn | undefined, c: OpsContext): Promise<Response> {
  const token = await readToken(c, 'Send {"token": "..."} with the OPS_TOKEN.');
  // Without OPS_TOKEN, everybody who can connect is signed in.
  if (signIn === undefined) return c.body(null, 204);
  return c.json(signIn.begin(c, signIn.check(token, c.env.incoming.socket.remoteAddress)));
}

interface PlaygroundParts {
  /** Answers a request as one of the public listener, and counts and logs it so. */
  readonly serve: RequestListener;
  readonly bodyLimit: number;
  /** Whether callers need a client certificate. */
  readonly asksClients: () => boolean;
}

/**
 * Hands a request of the console's playground to the public listener, with the API key that the
 * user typed. Keeps neither.
 */
async function play(
  operation: Operation,
  c: OpsContext,
  { serve, bodyLimit, asksClients }: PlaygroundParts,
): Promise<Response> {
  const { incoming, outgoing } = c.env;
  const { headers } = incoming;
  if (asksClients())
    throw new OpsError(
      409,
      'client_certificate',
      'The playground cannot call the service: callers need a client certificate (TLS_CLIENT_CA_FILE), and the console has none.',
    );
  // The public listener would cut the connection, and a browser lose its response.
  if (Number(headers['content-length']) > bodyLimit)
    throw new CallerError('payload_too_large', MESSAGES.payload_too_large(bodyLimit));
  incoming.url = `/api/v1/${operation}`;
  const apiKey = headers[API_KEY_HEADER.toLowerCase()];
  // Never the OPS_TOKEN of a program.
  delete headers.authorization;
  if (apiKey) headers.authorization = `Bearer ${apiKey}`;
  serve(incoming, outgoing);
  // Also ends for a reader that has gone.
  await finished(outgoing).catch(() => {});
  return alreadySent(c);
}

/** The built page. The path holds for src/ and for dist/. */
const FOLDER = new URL('../../../dist/console/', import.meta.url);
const CONTENT_TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Files of other packages that the page uses, by their names below /assets/. */
const PACKAGES: Readonly<Record<string, string>> = {
  'preact.js': 'preact',
  'preact/hooks.js': 'preact/hooks',
  'preact/jsx-runtime.js': 'preact/jsx-runtime',
  'uplot.js': 'uplot/dist/uPlot.esm.js',
  'uplot.css': 'uplot/dist/uPlot.min.css',
  'client/path.js': '#client/path',
  'paths/json-text.js': '#paths/json-text',
};
/** A browser knows no packages, and our content policy no map of them. */
const PACKAGE_IMPORT = /\bfrom ?(['"])#?((?:preact|uplot|client|paths)[\w/-]*)\1/g;

/** All pages that do not change, by path. */
export function pagesOf(...facts: Parameters<typeof openApiDocument>): Map<string, OpsPage> {
  const page = (type: string, body: string) => ({ content_type: `${type}; charset=utf-8`, body });
  return readAssets()
    .set('/openapi.json', page('application/json', documentText(...facts)))
    .set(PATHS.reference, page('text/html', referenceHtml(openApiDocument(...facts))));
}

/**
 * Reads all files of the console once, by path. The listener serves no other file. Empty if the
 * page was not built.
 */
export function readAssets(folder = FOLDER): Map<string, OpsPage> {
  if (!existsSync(folder)) return new Map();
  const { resolve } = createRequire(import.meta.url);
  const own = readdirSync(folder).map((name) => [name, new URL(name, folder)] as const);
  const others = Object.entries(PACKAGES).map(([name, file]) => [name, resolve(file)] as const);
  return new Map(
    [...own, ...others].flatMap(([name, file]) => {
      const contentType = CONTENT_TYPES[extname(name)];
      if (contentType === undefined) return [];
      const path = name === 'index.html' ? '/' : `/assets/${name}`;
      return [[path, { content_type: contentType, body: bodyOf(name, file), isOpen: true }]];
    }),
  );
}

function bodyOf(name: string, file: URL | string): OpsPage['body'] {
  const bytes = readFileSync(file);
  if (extname(name) !== '.js') return bytes;
  return bytes.toString().replace(PACKAGE_IMPORT, 'from $1/assets/$2.js$1');
}
