import type { IncomingHttpHeaders } from 'node:http';
import { text } from 'node:stream/consumers';
import { StandIn } from './stand-in.ts';

/** A collector that takes OTLP/HTTP in JSON, and can be slow or refuse. */
export class Collector extends StandIn {
  /** How the next requests are answered; `hang`: not at all. */
  mode: 'take' | 'hang' | 'refuse' = 'take';
  requests = 0;
  /** All bodies, as they came. */
  text = '';
  headers: IncomingHttpHeaders = {};
  resource: Record<string, unknown> = {};
  readonly spans: ReturnType<typeof spanOf>[] = [];

  constructor() {
    super(async (request, response) => {
      this.requests++;
      const body = await text(request);
      if (this.mode === 'hang') return;
      if (this.mode === 'refuse') return response.writeHead(400).end('{}');
      this.headers = request.headers;
      if (request.url === '/v1/traces') this.#take(body);
      return response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
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

function spanOf(span: any) {
  const nanoseconds = BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano);
  return {
    name: span.name as string,
    kind: span.kind as number,
    traceId: span.traceId as string,
    spanId: span.spanId as string,
    parentSpanId: (span.parentSpanId || undefined) as string | undefined,
    attributes: attributesOf(span),
    status: span.status?.code as number | undefined,
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
