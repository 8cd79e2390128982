import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

interface ReceivedSpan {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly attributes: Record<string, unknown>;
  readonly status: number | undefined;
  readonly durationMs: number;
}

/** A collector that takes OTLP/HTTP in JSON, and can be slow or refuse. */
export class Collector {
  /** How the next requests are answered; `hang`: not at all. */
  mode: 'take' | 'hang' | 'refuse' = 'take';
  requests = 0;
  /** All bodies, as they came. */
  text = '';
  headers: IncomingHttpHeaders = {};
  resource: Record<string, unknown> = {};
  readonly spans: ReceivedSpan[] = [];
  readonly url: string;
  readonly #server;
  readonly #hanging = new Set<ServerResponse>();

  private constructor(server: ReturnType<typeof createServer>) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on('request', async (request, response) => {
      this.requests++;
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk);
      if (this.mode === 'hang') return this.#hanging.add(response);
      if (this.mode === 'refuse') return response.writeHead(400).end('{}');
      this.headers = request.headers;
      if (request.url === '/v1/traces') this.#take(Buffer.concat(chunks).toString());
      return response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  }

  static async open(): Promise<Collector> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Collector(server);
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #take(body: string): void {
    this.text += body;
    for (const { resource, scopeSpans } of JSON.parse(body).resourceSpans) {
      this.resource = attributesOf(resource);
      for (const span of scopeSpans.flatMap(({ spans }: { spans: unknown[] }) => spans))
        this.spans.push(spanOf(span));
    }
  }
}

function spanOf(span: any): ReceivedSpan {
  const { name, kind, traceId, spanId, parentSpanId } = span;
  const nanoseconds = BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano);
  return {
    ...{ name, kind, traceId, spanId, parentSpanId: parentSpanId || undefined },
    attributes: attributesOf(span),
    status: span.status?.code,
    durationMs: Number(nanoseconds) / 1e6,
  };
}

/** https://github.com/open-telemetry/opentelemetry-proto: common/v1/common.proto, AnyValue */
function attributesOf({ attributes = [] }: any): Record<string, unknown> {
  return Object.fromEntries(
    attributes.map(({ key, value }: any) => [
      key,
      value.stringValue ?? value.boolValue ?? Number(value.intValue ?? value.doubleValue),
    ]),
  );
}
