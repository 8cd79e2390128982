import type { RequestListener, Server } from 'node:http';
import { CallerError } from '../errors.ts';
import { dataOf } from './body/request-data.ts';
import { textTokensOf } from './body/text-tokens.ts';
import { textValuesOf } from './body/text-values.ts';
import type { ServerContext } from './context.ts';
import { detokenizer } from './detokenize.ts';
import { Exchange, type ResponseContent } from './exchange.ts';
import { checkProtocol } from './guards.ts';
import { serveHealth, serveLiveness } from './health.ts';
import { servePolicy } from './policy.ts';
import { respond, respondError } from './responses.ts';
import { METHODS, originForm } from './routes.ts';
import { MESSAGES } from './schema.ts';
import { tokenizer } from './tokenize.ts';
import { createListener } from './transport/listener.ts';
import { refuseUnparsed } from './transport/parser-errors.ts';
import { inTurn } from './transport/pipelining.ts';
import { shedding } from './transport/shedding.ts';

type Handler = (exchange: Exchange) => ResponseContent | Promise<ResponseContent>;

const HANDLERS: Readonly<Record<string, Handler>> = {
  '/api/v1/tokenize': tokenizer(dataOf),
  '/api/v1/detokenize': detokenizer(dataOf),
  '/api/v1/lookup': tokenizer(dataOf, 'lookup'),
  '/api/v1/text/tokenize': tokenizer(textValuesOf),
  '/api/v1/text/detokenize': detokenizer(textTokensOf, () => true),
  '/api/v1/policy': servePolicy,
  '/health': serveHealth,
  '/health/live': serveLiveness,
};

/** Creates the server of the public listener; it does not listen yet. */
export function createHttpServer(context: ServerContext): Server {
  // Every request passes the bounds of its connection and of the node before anything else.
  const route = inTurn(shedding(context, serving(context)), context.budget);
  const listener: RequestListener = (request, response) => {
    request.url = originForm(request.url!);
    route(request, response);
  };
  const server = createListener(listener, context.tls, context.descriptors, context.metrics);
  // Node would send 100 Continue before the API key is checked, so admission sends it.
  server.on('checkContinue', listener);
  server.on('checkExpectation', listener);
  refuseUnparsed(server, (requestId, status, error) => {
    context.metrics.request('none', status, 0);
    context.log.info({ request_id: requestId, status, error });
  });
  return server;
}

function serving(context: ServerContext): RequestListener {
  return async (request, response) => {
    const exchange = new Exchange(context, request, response);
    try {
      checkProtocol(request);
      const handler = allows(exchange) ? HANDLERS[exchange.route!]! : serveMethods;
      await respond(exchange, await handler(exchange));
    } catch (error) {
      respondError(exchange, error);
    }
  };
}

/**
 * Whether the route has this method. Otherwise, the answer has an Allow header.
 * @throws CallerError not_found or method_not_allowed
 */
function allows({ route, request: { method }, headers }: Exchange): boolean {
  if (route === undefined) throw new CallerError('not_found');
  const allowed = METHODS[route]!;
  if (allowed === method || allowed.split(', ').includes(method!)) return true;
  headers.Allow = allowed;
  if (method !== 'OPTIONS')
    throw new CallerError('method_not_allowed', MESSAGES.method_not_allowed(allowed));
  return false;
}

function serveMethods(): ResponseContent {
  return { status: 204, body: '' };
}
