import { randomUUID } from 'node:crypto';
import type { RequestListener, Server } from 'node:http';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { CallerError } from '../errors.ts';
import { answer, answerError } from './answer.ts';
import type { ServerContext } from './context.ts';
import { detokenizeHandler } from './detokenize.ts';
import { admission, protocolGuard } from './guards.ts';
import { healthHandler, livenessHandler } from './health.ts';
import { createListener } from './listener.ts';
import { parserErrorHandler } from './parser-errors.ts';
import { inTurn } from './pipelining.ts';
import { METHODS, originForm, routeOf } from './routes.ts';
import { shedding } from './shedding.ts';
import { tokenizeHandler } from './tokenize.ts';

/** Initial values of our own properties of a request. */
const OF_A_REQUEST = {
  startedAtMs: 0,
  caller: null,
  held: null,
  operation: null,
  unknown_tokens: 0,
};

/** Creates the public listener; it does not listen yet. */
export function createHttpServer(context: ServerContext): FastifyInstance {
  const app: FastifyInstance = fastify({
    logger: false,
    bodyLimit: context.bodyLimit,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    exposeHeadRoutes: true,
    requestIdHeader: false,
    genReqId: () => randomUUID(),
    serverFactory: (handler) => serverOf(context, handler),
    schemaController: {
      compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas },
    },
    clientErrorHandler: parserErrorHandler(context.log, context.metrics),
    frameworkErrors: (error, request, reply) => {
      // Fastify does not add our properties to these requests.
      Object.assign(request, OF_A_REQUEST, { startedAtMs: performance.now() });
      answerError(context, request, reply as FastifyReply, error);
    },
  });
  for (const [name, value] of Object.entries(OF_A_REQUEST)) app.decorateRequest(name, value);
  app.addHook('onRequest', (request, reply, done) => {
    request.startedAtMs = performance.now();
    protocolGuard(request);
    // Checked here, because Fastify would check the content type first, with its own errors. It
    // also accepts other spellings of a path.
    if (request.is404 || routeOf(request.url) === undefined) notFound(context, request, reply);
    else done();
  });
  app.setErrorHandler((error, request, reply) => answerError(context, request, reply, error));
  app.setNotFoundHandler((request, reply) => notFound(context, request, reply));
  // The handlers read bodies themselves, within the budget of bytes (request-body.ts).
  app.addHttpMethod('POST', { hasBody: false, overrideExisting: true });
  addRoutes(app, context);
  return app;
}

/** Creates the server. Every request passes its bounds before routing. */
function serverOf(context: ServerContext, handler: RequestListener): Server {
  const route = inTurn(shedding(context, handler));
  const listener: RequestListener = (request, response) => {
    request.url = originForm(request.url!);
    route(request, response);
  };
  const server = createListener(listener, context.tls, context.descriptors, context.metrics);
  // Node would send 100 Continue before the API key is checked, so admission sends it.
  server.on('checkContinue', listener);
  server.on('checkExpectation', listener);
  return server;
}

/** Fastify's own compilers would load Ajv at every start, but no route has a Fastify schema. */
function noSchemas(): never {
  throw new Error('routes have no schemas of Fastify; see http/schema.ts');
}

function addRoutes(app: FastifyInstance, context: ServerContext): void {
  const tokenize = { onRequest: admission(context, 'tokenize') };
  app.post('/api/v1/tokenize', tokenize, tokenizeHandler(context));
  const detokenize = { onRequest: admission(context, 'detokenize') };
  app.post('/api/v1/detokenize', detokenize, detokenizeHandler(context));
  app.get('/health', healthHandler(context));
  app.get('/health/live', livenessHandler(context));
}

function notFound(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const route = routeOf(request.url);
  if (route === undefined) throw new CallerError('not_found');
  reply.header('Allow', METHODS[route]);
  if (request.method !== 'OPTIONS') throw new CallerError('method_not_allowed');
  return answer(context, request, reply, 204, '');
}
