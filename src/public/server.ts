import type { RequestListener, Server } from 'node:http';
import { CallerError } from '../errors.ts';
import type { ClientOperation } from '../limits/client-limits.ts';
import type { PolicyRules } from '../policy/rules.ts';
import { invalid } from './body/data.ts';
import { readBody } from './body/request-body.ts';
import { dataOf, kindsIn, type Reader, type RequestValues, valuesOf } from './body/request-data.ts';
import { textTokensOf, textValuesOf } from './body/texts.ts';
import { detokenizer } from './detokenize.ts';
import { BEFORE_DATA, Exchange, type ResponseContent, type ServerContext } from './exchange.ts';
import { guard } from './guardrail/guardrail.ts';
import { admit, admitReader, checkProtocol } from './guards.ts';
import { respond, respondError } from './responses.ts';
import { GUARDRAIL, type HealthFields, LINE_END, MESSAGES, methodsOf } from './schema.ts';
import { createListener } from './transport/connections.ts';
import { inTurn, refuseUnparsed } from './transport/pipelining.ts';
import { shedding } from './transport/shedding.ts';

type Handler = (exchange: Exchange) => ResponseContent | Promise<ResponseContent>;

const serveMethods = (): ResponseContent => ({ status: 204, body: '' });

const HANDLERS: Readonly<Record<string, Handler>> = {
  '/api/v1/tokenize': tokenizer(dataOf),
  '/api/v1/detokenize': detokenizer(dataOf),
  '/api/v1/lookup': tokenizer(dataOf, 'lookup'),
  '/api/v1/text/tokenize': tokenizer(textValuesOf),
  '/api/v1/text/detokenize': detokenizer(textTokensOf, () => true),
  '/api/v1/policy': servePolicy,
  [GUARDRAIL]: guard,
  '/health': serveHealth,
  '/health/live': serveLiveness,
};

/** Creates the server of the public listener; it does not listen yet. */
export function createHttpServer(context: ServerContext, answer: RequestListener): Server {
  // Every request passes the bounds of its connection and of the node before anything else.
  const route = inTurn(answer, context.budget);
  const listener: RequestListener = (request, response) => {
    request.url = request.url!.replace(ABSOLUTE, '');
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

/** Answers requests without the bounds of a connection, which each listener has. */
export function requestListener(context: ServerContext): RequestListener {
  return shedding(context, async (request, response) => {
    const exchange = new Exchange(context, request, response);
    try {
      checkProtocol(request);
      const handler = allows(exchange) ? HANDLERS[exchange.route!]! : serveMethods;
      await respond(exchange, await handler(exchange));
    } catch (error) {
      respondError(exchange, error);
    }
  });
}

/**
 * Whether the route has this method. Otherwise, the answer has an Allow header.
 * @throws CallerError not_found or method_not_allowed
 */
function allows({ route, request: { method }, headers }: Exchange): boolean {
  if (route === undefined) throw new CallerError('not_found');
  const allowed = methodsOf(route);
  if (allowed === method || allowed.split(', ').includes(method!)) return true;
  headers.Allow = allowed;
  if (method !== 'OPTIONS')
    throw new CallerError('method_not_allowed', MESSAGES.method_not_allowed(allowed));
  return false;
}

/**
 * POST /api/v1/tokenize and /api/v1/text/tokenize; POST /api/v1/lookup, which gives the tokens that
 * values have, and stores nothing.
 */
function tokenizer(
  read: Reader<RequestValues>,
  operation: Exclude<ClientOperation, 'detokenize'> = 'tokenize',
) {
  return async (exchange: Exchange): Promise<ResponseContent> => {
    const admitted = admit(exchange, operation);
    const { client } = admitted instanceof Promise ? await admitted : admitted;
    const sent = read(exchange, await readBody(exchange));
    const request = sent instanceof Promise ? await sent : sent;
    if (operation === 'lookup') checkLookup(request, client.token_mode === 'random');
    const accepted = valuesOf(exchange, request);
    const values = accepted instanceof Promise ? await accepted : accepted;
    const { vault } = exchange.context;
    const asked = vault[operation](values, client, request.viewer, exchange.deadlineMs);
    const tokens = await exchange.inVault(asked);
    const body = BEFORE_DATA + request.json(tokens) + exchange.afterData();
    const { passed } = request;
    return { status: 200, body, values: tokens.length, passed, kinds: kindsIn(request) };
  };
}

/** Each look-up confirms or refutes a guess, so the limit of requests must bound them. */
const MAX_LOOKED_UP = 100;

/** @throws CallerError invalid_type, also for a kind of which equal values have different tokens */
function checkLookup(request: RequestValues, isRandomClient: boolean): void {
  const { texts } = request;
  if (texts.length > MAX_LOOKED_UP)
    throw invalid(`data: has more than ${MAX_LOOKED_UP} values; look them up in several requests`);
  texts.forEach((_, i) => {
    const { name, tokens } = request.kindOf(i).settings;
    const isRandom = tokens === null ? isRandomClient : tokens === 'random';
    if (isRandom)
      throw invalid(
        `${request.pathOf(i)}: tokens of kind ${name} are random: none can be looked up`,
      );
  });
}

/** GET /health: 200 when the node can work; 503 when it cannot, or is draining. */
async function serveHealth({ context }: Exchange): Promise<ResponseContent> {
  const { isDatabaseWell, isAble } = await context.health.read();
  const isReady = isAble && context.state.phase === 'serving';
  const body: Record<HealthFields, string> = {
    status: isReady ? 'ok' : 'error',
    timestamp: `${new Date().toISOString().slice(0, 19)}Z`,
    postgres: isDatabaseWell ? 'ok' : 'error',
    version: context.interfaceVersion,
  };
  return { status: isReady ? 200 : 503, body: JSON.stringify(body) };
}

/** GET /health/live: 200 while the process runs, even without a database. */
function serveLiveness(): ResponseContent {
  return { status: 200, body: '{"status":"ok"}' };
}

/** Made once for each policy, because it can have 200 kB. */
const bodies = new WeakMap<PolicyRules, string>();

/** GET /api/v1/policy: which strings the policy in force replaces, and its tag for If-Match. */
async function servePolicy(exchange: Exchange): Promise<ResponseContent> {
  await admitReader(exchange);
  const rules = await exchange.context.policies.current();
  const { version, tag, fields = [], elsewhere } = rules.policy;
  if (version === 0) throw new CallerError('not_found', MESSAGES.no_policy);
  exchange.headers.ETag = tag;
  const body = bodies.get(rules) ?? JSON.stringify({ version, fields, elsewhere });
  bodies.set(rules, body);
  exchange.reserve(Buffer.byteLength(body) + LINE_END.length);
  return { status: 200, body };
}

/** RFC 9112 section 3.2.2: a server must accept `http://host/path`, too. */
const ABSOLUTE = /^https?:\/\/[^/?#@\s]+(?=[/?]|$)/i;
