import { createServer, type Server } from 'node:http';

/** What is shown at /metrics. */
export interface Scrape {
  text(): Promise<string>;
  readonly content_type: string;
}

const TIMEOUTS = {
  headersTimeout: 10_000,
  requestTimeout: 10_000,
  keepAliveTimeout: 72_000,
  connectionsCheckingInterval: 1_000,
};

/** The ops listener: for operators and their tools, never for callers. */
export function createOpsServer(metrics: Scrape): Server {
  return createServer(TIMEOUTS, (request, response) => {
    if (request.url !== '/metrics') {
      answer(response, 404, 'text/plain; charset=utf-8', 'There is /metrics here.\n');
    } else if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('Allow', 'GET, HEAD');
      answer(response, 405, 'text/plain; charset=utf-8', 'Use GET.\n');
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
