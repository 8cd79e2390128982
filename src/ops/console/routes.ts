import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import {
  API_KEY_HEADER,
  type ClientDetail,
  type Operation,
  PATHS,
  type PolicyDetail,
  type RecentRequestsShown,
} from '#console';
import { Unavailable } from '../../errors.ts';
import { apiPages } from '../../http/openapi.ts';
import type { RecentRequests } from '../../service/recent-requests.ts';
import { type Access, checkNotEmbedded, checkSameOrigin } from '../access.ts';
import { answerJson, type OpsPage, Refusal, type Route, readToken } from '../server.ts';
import type { CurrentState } from './current-state.ts';
import type { EventStreams } from './events.ts';
import type { PlaygroundForwarder } from './playground-forwarder.ts';
import type { PolicyInForce } from './policy-in-force.ts';

const MAX_SIGN_IN_BYTES = 4_096;
/** The page with its header, which asks for a sign-in where one is needed. */
const REFERENCE_VIEW = '/#/reference';

interface ConsoleParts {
  readonly access: Access;
  readonly state: CurrentState;
  readonly events: EventStreams;
  readonly playground: PlaygroundForwarder;
  readonly recent: RecentRequests;
  readonly policy: PolicyInForce;
}

/** The routes of the console, by path. */
export function consoleRoutes(parts: ConsoleParts): Map<string, Route> {
  const { access, state, events, playground, recent, policy } = parts;
  const tryOut = (operation: Operation): Route => ({
    POST: async (request, response) => {
      checkSameOrigin(request);
      await playground.forward(operation, request, response);
    },
  });
  const { reference: _, ...paths } = PATHS;
  const routes: Record<(typeof paths)[keyof typeof paths], Route> = {
    [PATHS.state]: {
      GET: async (request, response) => {
        checkNotEmbedded(request);
        answerJson(response, 200, await state.read());
      },
    },
    [PATHS.events]: {
      GET: async (request, response) => {
        checkNotEmbedded(request);
        await events.open(request, response, () => access.isAllowed(request));
      },
    },
    [PATHS.requests]: {
      GET: async (request, response) => {
        checkNotEmbedded(request);
        const newest: RecentRequestsShown = recent.newest;
        answerJson(response, 200, newest);
      },
    },
    [PATHS.client]: {
      GET: async (request, response) => {
        checkNotEmbedded(request);
        const id = new URLSearchParams(request.url!.split('?')[1]).get('id') ?? '';
        answerJson(response, 200, await found(state.client(id), 'There is no such client.'));
      },
    },
    [PATHS.policy]: {
      GET: async (request, response) => {
        checkNotEmbedded(request);
        const { detail } = policy;
        const document = await state.documentOf(detail);
        answerJson(response, 200, { ...detail, document } satisfies PolicyDetail);
      },
    },
    [PATHS.apiKey]: {
      POST: async (request, response) => {
        checkSameOrigin(request);
        const apiKey = String(request.headers[API_KEY_HEADER.toLowerCase()] ?? '');
        answerJson(response, 200, await found(state.clientOf(apiKey), 'No API key is this one.'));
      },
    },
    [PATHS.session]: {
      isOpen: true,
      POST: (request, response) => signIn(access, request, response),
      DELETE: async (request, response) => {
        checkSameOrigin(request);
        const forgotten = access.sessions?.end(request.headers);
        if (forgotten !== undefined) response.setHeader('Set-Cookie', forgotten);
        response.writeHead(204).end();
      },
    },
    [PATHS.tokenize]: tryOut('tokenize'),
    [PATHS.detokenize]: tryOut('detokenize'),
  };
  const reference: Route = {
    isOpen: true,
    GET: async (_, response) => void response.writeHead(302, { Location: REFERENCE_VIEW }).end(),
  };
  return new Map([...Object.entries(routes), ['/reference', reference]]);
}

/** @throws Refusal */
async function found(
  asked: Promise<ClientDetail | undefined>,
  missing: string,
): Promise<ClientDetail> {
  const client = await asked.catch((error) => {
    if (!(error instanceof Unavailable)) throw error;
    throw new Refusal(503, 'database_unavailable', 'The database does not answer.');
  });
  if (client === undefined) throw new Refusal(404, 'not_found', missing);
  return client;
}

async function signIn(
  access: Access,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  checkSameOrigin(request);
  const token = await readToken(
    request,
    MAX_SIGN_IN_BYTES,
    'Send {"token": "..."} with the OPS_TOKEN.',
  );
  // Without OPS_TOKEN, everybody who can connect is signed in.
  if (access.sessions === undefined) return void response.writeHead(204).end();
  if (!access.tries.take(request.socket.remoteAddress)) {
    response.setHeader('Retry-After', 1);
    throw new Refusal(429, 'too_many', 'Too many attempts to sign in. Wait a second.');
  }
  if (!access.isToken(token)) {
    throw new Refusal(401, 'unauthorized', 'This is not the OPS_TOKEN of this service.');
  }
  const { cookie, signedIn } = access.sessions.begin(true);
  response.setHeader('Set-Cookie', cookie);
  answerJson(response, 200, signedIn);
}

/** The built page. The path holds for src/ and for dist/. */
const FOLDER = new URL('../../../dist/console/', import.meta.url);
const CONTENT_TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  png: 'image/png',
};

/** Files of other packages that the page uses, by their names below /assets/. */
const PACKAGES: Readonly<Record<string, string>> = {
  'preact.js': 'preact',
  'preact/hooks.js': 'preact/hooks',
  'preact/jsx-runtime.js': 'preact/jsx-runtime',
  'uplot.js': 'uplot/dist/uPlot.esm.js',
  'uplot.css': 'uplot/dist/uPlot.min.css',
};
/** A browser knows no packages, and our content policy no map of them. */
const PACKAGE_IMPORT = /\bfrom ?(['"])((?:preact|uplot)[\w/-]*)\1/g;

/** All pages that do not change, by path. */
export function pagesOf(...facts: Parameters<typeof apiPages>): Map<string, OpsPage> {
  const { document, reference } = apiPages(...facts);
  return readAssets().set('/openapi.json', document).set(PATHS.reference, reference);
}

/**
 * Reads all files of the console once, by path. The listener serves no other file. Empty if the
 * page was not built.
 */
export function readAssets(folder = FOLDER): Map<string, OpsPage> {
  const assets = new Map<string, OpsPage>();
  for (const name of namesIn(folder)) {
    const contentType = CONTENT_TYPES[extensionOf(name)];
    if (contentType === undefined) continue;
    const path = name === 'index.html' ? '/' : `/assets/${name}`;
    assets.set(path, asset(contentType, new URL(name, folder)));
  }
  if (assets.size === 0) return assets;
  const { resolve } = createRequire(import.meta.url);
  for (const [name, file] of Object.entries(PACKAGES))
    assets.set(`/assets/${name}`, asset(CONTENT_TYPES[extensionOf(name)]!, resolve(file)));
  return assets;
}

function extensionOf(name: string): string {
  return name.slice(name.lastIndexOf('.') + 1);
}

function namesIn(folder: URL): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function asset(contentType: string, file: URL | string): OpsPage {
  const text = readFileSync(file);
  const isScript = contentType === CONTENT_TYPES.js;
  const body = isScript ? text.toString().replace(PACKAGE_IMPORT, 'from $1/assets/$2.js$1') : text;
  const etag = `"${createHash('sha256').update(body).digest('base64url')}"`;
  return { content_type: contentType, body, etag, isOpen: true };
}
