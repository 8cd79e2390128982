import { setTimeout as sleep } from 'node:timers/promises';
import type { Context, Span, Tracer } from '@opentelemetry/api';
import type { Sampler, SpanExporter, TracerProvider } from '@opentelemetry/sdk-trace';
import type { Config } from '../config/config.ts';
import { errorCode, OperatorError } from '../errors.ts';
import type { RequestSpan, TracedRequest, Tracing } from '../public/tracing.ts';
import { VERSION } from '../version.ts';

type TracingOptions = NonNullable<Config['tracing']>;

/** Spans that wait for the collector, some 2 KB each. Further ones are dropped. */
const MAX_WAITING_SPANS = 2_048;
const BATCH_SPANS = 512;
const BATCH_INTERVAL_MS = 1_000;
const EXPORT_TIMEOUT_MS = 5_000;
/** Enough for all that waits: the end of a node sends it at once. */
const MAX_EXPORTS = MAX_WAITING_SPANS / BATCH_SPANS + 1;
const CLOSE_TIMEOUT_MS = 2_000;

/**
 * Sends a span of each request to a collector.
 * @param onChange called when sending begins to fail, and when it works again
 * @throws OperatorError when the packages are not installed
 */
export async function openTracing(
  options: TracingOptions,
  onChange: (isAvailable: boolean) => void,
): Promise<Tracing> {
  const { api, sdk, resources, otlp } = await load();
  const { url, headers, attributes } = options;
  const exporter = new otlp.OTLPTraceExporter({
    ...{ url, headers, timeoutMillis: EXPORT_TIMEOUT_MS, concurrencyLimit: MAX_EXPORTS },
  });
  const processor = new sdk.BatchSpanProcessor({
    exporter: watched(exporter, onChange),
    ...{ maxQueueSize: MAX_WAITING_SPANS, maxExportBatchSize: BATCH_SPANS },
    ...{ scheduledDelayMillis: BATCH_INTERVAL_MS, exportTimeoutMillis: EXPORT_TIMEOUT_MS },
  });
  const provider = new sdk.TracerProvider({
    resource: resources.resourceFromAttributes({ 'service.version': VERSION, ...attributes }),
    sampler: samplerOf(sdk, options),
    spanProcessors: [processor],
  });
  return spansOf(api, provider);
}

type Packages = Awaited<ReturnType<typeof load>>;

/** Loaded on use: only installations with a collector have the packages. */
async function load() {
  try {
    return {
      api: await import('@opentelemetry/api'),
      sdk: await import('@opentelemetry/sdk-trace'),
      resources: await import('@opentelemetry/resources'),
      otlp: await import('@opentelemetry/exporter-trace-otlp-http'),
    };
  } catch (error) {
    throw new OperatorError(
      `OTEL_EXPORTER_OTLP_ENDPOINT needs packages of OpenTelemetry, which cannot be loaded (${errorCode(error)}). Run: npm install --no-save --save-prod @opentelemetry/api@1.9 @opentelemetry/sdk-trace@2 @opentelemetry/resources@2 @opentelemetry/exporter-trace-otlp-http@0.223`,
    );
  }
}

function samplerOf(sdk: Packages['sdk'], { sampler: name, ratio }: TracingOptions): Sampler {
  const always = name.endsWith('on') ? new sdk.AlwaysOnSampler() : new sdk.AlwaysOffSampler();
  const root = name.endsWith('ratio') ? new sdk.TraceIdRatioBasedSampler(ratio) : always;
  return name.startsWith('parentbased_') ? new sdk.ParentBasedSampler({ root }) : root;
}

/** The SDK tells nobody that the collector is away. */
function watched(exporter: SpanExporter, onChange: (is: boolean) => void): SpanExporter {
  let isAvailable = true;
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        const isDone = result.code === 0;
        if (isDone !== isAvailable) onChange(isDone);
        isAvailable = isDone;
        done(result);
      }),
    shutdown: () => exporter.shutdown(),
  };
}

/** Names and attributes are those of the semantic conventions for HTTP servers. */
function spansOf(api: Packages['api'], provider: TracerProvider): Tracing {
  const tracer = provider.getTracer('standin', VERSION);
  return {
    begin({ method, route, request_id: requestId, ...rest }) {
      const parent = parentOf(api, rest);
      const attributes = {
        'http.request.method': method,
        'http.route': route,
        'url.path': route,
        'standin.request_id': requestId,
      };
      const options = { kind: api.SpanKind.SERVER, startTime: rest.startedAtMs, attributes };
      const span = tracer.startSpan(`${method} ${route}`, options, parent);
      return requestSpan(api, tracer, span, parent);
    },
    async close() {
      const sent = provider.shutdown().catch(() => {});
      await Promise.race([sent, sleep(CLOSE_TIMEOUT_MS)]);
    },
  };
}

/** Only what `correlationOf` has checked: no other header reaches a span. */
function parentOf(
  { trace, ROOT_CONTEXT, TraceFlags }: Packages['api'],
  { correlation, isSampled }: Pick<TracedRequest, 'correlation' | 'isSampled'>,
): Context {
  const { trace_id: traceId, parent_id: spanId } = correlation;
  if (traceId === undefined || spanId === undefined) return ROOT_CONTEXT;
  const traceFlags = isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true });
}

function requestSpan(
  { trace, SpanStatusCode }: Packages['api'],
  tracer: Tracer,
  span: Span,
  parent: Context,
): RequestSpan {
  const { traceId, spanId } = span.spanContext();
  return {
    ids: { trace_id: traceId, span_id: spanId },
    async part(name, work) {
      if (!span.isRecording()) return work;
      const within = trace.setSpan(parent, span);
      const part = tracer.startSpan(name, { startTime: performance.now() }, within);
      try {
        return await work;
      } finally {
        part.end(performance.now());
      }
    },
    end({ status, values, client_id: clientId }) {
      span.setAttributes({ 'http.response.status_code': status, 'standin.values': values });
      if (clientId !== undefined) span.setAttribute('standin.client_id', clientId);
      if (status >= 500)
        span.setAttribute('error.type', String(status)).setStatus({ code: SpanStatusCode.ERROR });
      span.end(performance.now());
    },
  };
}
