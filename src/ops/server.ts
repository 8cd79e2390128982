import { createServer, type Server } from 'node:http';

/** What is shown at /metrics. */
export interface Scrape {
  text(): Promise<string>;
  readonly content_type: string;
}

/** A page that stays as it is. */
export interface Page {
  readonly content_type: string;
  readonly body: string;
}

/** Nothing but style sheets from here; no script, no frame around it. */
const PAGE_HEADERS = {
  'Content-Security-Policy':
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
};

const TIMEOUTS = {
  headersTimeout: 10_000,
  requestTimeout: 10_000,
  keepAliveTimeout: 72_000,
  connectionsCheckingInterval: 1_000,
};

/**
 * The ops listener: for operators and their tools, never for callers.
 * @param pages by path
 */
export function createOpsServer(metrics: Scrape, pages: Readonly<Record<string, Page>>): Server {
  const there = ['/metrics', ...Object.keys(pages)];
  return createServer(TIMEOUTS, (request, response) => {
    if (!there.includes(request.url ?? '')) {
      answer(response, 404, 'text/plain; charset=utf-8', `There is ${there.join(', ')} here.\n`);
    } else if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('Allow', 'GET, HEAD');
      answer(response, 405, 'text/plain; charset=utf-8', 'Use GET.\n');
    } else if (request.url !== '/metrics') {
      const { content_type, body } = pages[request.url!]!;
      for (const [name, value] of Object.entries(PAGE_HEADERS)) response.setHeader(name, value);
      answer(response, 200, content_type, body);
    } else {
      metrics.text().then(
        (text) => answer(response, 200, metrics.content_type, text),
        () => answer(response, 500, 'text/plain; charset=utf-8', 'The metrics cannot be read.\n'),
      );
    }
  });
}

function answer(
  response: import('node:http').ServerResponse,
  status: number,
  content_type: string,
  body: string,
): void {
  response
    .writeHead(status, { 'Content-Type': content_type, 'Cache-Control': 'no-store' })
    .end(body);
}
