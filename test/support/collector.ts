import type { IncomingHttpHeaders } from 'node:http';
import { text } from 'node:stream/consumers';
import { StandIn } from './stand-in.ts';

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
export class Collector extends StandIn {
  /** How the next requests are answered; `hang`: not at all. */
  mode: 'take' | 'hang' | 'refuse' = 'take';
  requests = 0;
  /** All bodies, as they came. */
  text = '';
  headers: IncomingHttpHeaders = {};
  resource: Record<string, unknown> = {};
  readonly spans: ReceivedSpan[] = [];

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
