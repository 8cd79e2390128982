import { randomUUID } from 'node:crypto';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { CALLER_ERRORS } from '../../errors.ts';
import type { ServerContext } from '../exchange.ts';
import { isWellFormed } from '../guards.ts';
import { JSON_HEADERS, LINE_END, methodsOf, routeOf } from '../schema.ts';

const RETRY_AFTER_S = 1;
const { status, message } = CALLER_ERRORS.overloaded;
const ERROR = JSON.stringify({ error: 'overloaded', message, retry_after: RETRY_AFTER_S });
const BODY = `${ERROR}${LINE_END}`;
/** A body up to this size is read and thrown away, so that the connection can stay. */
const MAX_DROPPED_BYTES = 65_536;
/**
 * Refuse new requests when the current turn of the event loop has lasted this long. A shorter bound
 * would cost more: a refusal takes time on this loop, but waiting takes none.
 */
const MAX_TURN_MS = 1_000;
const REPORT_INTERVAL_MS = 1_000;

/**
 * Refuses requests that would wait too long, as cheaply as possible: before routing, API key and
 * body, with one log line a second. Accepted requests get the same answers as on an idle node.
 * /health is never refused.
 */
export function shedding(context: ServerContext, handler: RequestListener): RequestListener {
  const countRefusal = refusals(context);
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
    countRefusal(route);
    refuse(request, response);
  };
}

function sheddableRoute(request: IncomingMessage): string | undefined {
  const route = request.method === 'POST' ? routeOf(request.url!) : undefined;
  return route && methodsOf(route) === 'POST' && isWellFormed(request) ? route : undefined;
}

function refuse(request: IncomingMessage, response: ServerResponse): void {
  const { 'content-length': length = Infinity, expect } = request.headers;
  // A caller that asked whether to send the body may now send another request in its place.
  const isLast = Number(length) > MAX_DROPPED_BYTES || expect !== undefined;
  response.sendDate = false;
  const headers = [...JSON_HEADERS, 'X-Request-Id', randomUUID()];
  headers.push('Retry-After', String(RETRY_AFTER_S), 'Content-Length', String(BODY.length));
  if (isLast) headers.push('Connection', 'close');
  response.writeHead(status, headers).end(BODY);
}

/** Counts refused requests by route, and reports them to log and metrics once a second. */
function refusals({ metrics, log }: ServerContext): (route: string) => void {
  const byRoute = new Map<string, number>();
  const report = () => {
    let requests = 0;
    for (const [route, count] of byRoute) {
      requests += count;
      metrics.shed(route, count);
    }
    byRoute.clear();
    log.warn({ requests }, 'overloaded: requests refused');
  };
  return (route) => {
    if (byRoute.size === 0) setTimeout(report, REPORT_INTERVAL_MS);
    byRoute.set(route, (byRoute.get(route) ?? 0) + 1);
  };
}
