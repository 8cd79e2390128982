import { randomUUID } from 'node:crypto';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { CALLER_ERRORS } from '../errors.ts';
import type { ServerContext } from './context.ts';
import { isWellFormed } from './guards.ts';
import { METHODS, routeOf } from './routes.ts';

const RETRY_AFTER_S = 1;
const BODY = JSON.stringify({ error: 'overloaded', retry_after: RETRY_AFTER_S });
/** A body up to this size is read and thrown away, and the connection kept. */
const MAX_DROPPED_BYTES = 65_536;
/**
 * Requests that were there when a turn of the event loop began have waited for as long as it takes.
 * Not sooner: refusing takes this loop's time, too, and waiting takes none.
 */
const MAX_TURN_MS = 1_000;
const TELL_INTERVAL_MS = 1_000;

/**
 * Refuses what would have to wait too long, as cheaply as it can be done: before routing, the API
 * key and the body, and with one line of the log a second. What is answered is what would have been
 * answered without the others; /health always is.
 */
export function shedding(context: ServerContext, handler: RequestListener): RequestListener {
  const refused = new Refused(context);
  let turnBeganMs = 0;
  let isTurnKnown = false;
  const endTurn = () => {
    isTurnKnown = false;
  };
  return (request, response) => {
    const nowMs = performance.now();
    if (!isTurnKnown) {
      isTurnKnown = true;
      turnBeganMs = nowMs;
      setImmediate(endTurn);
    }
    const isLate = nowMs - turnBeganMs > MAX_TURN_MS || context.vault.isOverloaded(nowMs);
    const route = isLate ? sheddableRoute(request) : undefined;
    if (route === undefined) return handler(request, response);
    refused.count(route);
    refuse(request, response);
  };
}

function sheddableRoute(request: IncomingMessage): string | undefined {
  const route = request.method === 'POST' ? routeOf(request.url!) : undefined;
  return route && METHODS[route] === 'POST' && isWellFormed(request) ? route : undefined;
}

function refuse(request: IncomingMessage, response: ServerResponse): void {
  const { 'content-length': length = Infinity, expect } = request.headers;
  // Who asked whether to send the body may, after this answer, send another request in its place.
  const isLast = Number(length) > MAX_DROPPED_BYTES || expect !== undefined;
  response.sendDate = false;
  response.writeHead(CALLER_ERRORS.overloaded.status, [
    'Content-Type',
    'application/json; charset=utf-8',
    'Cache-Control',
    'no-store',
    'X-Content-Type-Options',
    'nosniff',
    'X-Request-Id',
    randomUUID(),
    'Retry-After',
    String(RETRY_AFTER_S),
    'Content-Length',
    String(BODY.length),
    ...(isLast ? ['Connection', 'close'] : []),
  ]);
  response.end(BODY);
}

/** Counted at once, told in the log and by status once a second. */
class Refused {
  readonly #context: ServerContext;
  readonly #byRoute = new Map<string, number>();

  constructor(context: ServerContext) {
    this.#context = context;
  }

  count(route: string): void {
    if (this.#byRoute.size === 0) setTimeout(() => this.#tell(), TELL_INTERVAL_MS);
    this.#byRoute.set(route, (this.#byRoute.get(route) ?? 0) + 1);
  }

  #tell(): void {
    let requests = 0;
    for (const [route, count] of this.#byRoute) {
      requests += count;
      this.#context.metrics.shed(route, count);
    }
    this.#byRoute.clear();
    this.#context.log.warn({ requests }, 'overloaded: requests refused');
  }
}
