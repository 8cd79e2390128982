import { writeFileSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { parseConfig } from '../../src/config/config.ts';
import { openTracing } from '../../src/process/tracing.ts';
import { VERSION } from '../../src/version.ts';
import { readAudit } from '../support/audit.ts';
import { send } from '../support/http.ts';
import { logged } from '../support/served.ts';
import {
  call,
  type Place,
  runCli,
  type Service,
  startService,
  until,
  usualPlace,
} from '../support/service.ts';
import { StandIn } from '../support/stand-in.ts';

/** A collector that takes OTLP/HTTP in JSON, and can be slow or refuse. */
class Collector extends StandIn {
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

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';
const SERVER_KIND = 2;
const INTERNAL_KIND = 1;
const T = '/api/v1/tokenize';
const D = '/api/v1/detokenize';

let place: Place;
let collector: Collector;
beforeEach(async ({ onTestFinished }) => {
  place = await usualPlace();
  collector = await new Collector().open();
  onTestFinished(() => {
    collector.stop();
    place.remove();
  });
});

async function start(env: Record<string, string> = {}): Promise<Service> {
  const settings = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, AUDIT_LOG: 'audit.log' };
  const service = await startService(place, { ...settings, ...env });
  onTestFinished(() => service.stop());
  return service;
}

const parent = (flags: string) => ({ traceparent: `00-${TRACE}-${SPAN}-${flags}` });
const spansOf = (name: string) => collector.spans.filter((span) => span.name === name);

describe('spans', () => {
  test('of a request have the parent of the caller, and what the log says; no value, token, field name or API key', async () => {
    const node = await start({
      OTEL_SERVICE_NAME: 'vault of tests',
      // The name of its own setting goes before the one here.
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test,team=a%2Cb,service.name=other',
      OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=one%20two',
    });
    const sent = { data: { zqName: 'Ann Canary' } };
    const headers = { ...parent('01'), tracestate: 'zqvendor=1', baggage: 'zqbaggage=1' };
    const stored = await send(node, T, JSON.stringify(sent), headers);
    const token = JSON.parse(stored.text).data.zqName;
    await send(node, D, JSON.stringify({ data: { zqName: token } }));
    await send(node, D, '{"data":{"zqName":"zqunknown_tok"}}');
    await send(node, T, '{"data":{}}', { authorization: 'Bearer zqwrong' });
    await send(node, '/health', undefined, {}, 'GET');
    await send(node, '/zqpath?zqquery', '{}');
    await node.stop();
    const [made] = spansOf(`POST ${T}`);
    expect(made).toMatchObject({ kind: SERVER_KIND, traceId: TRACE, parentSpanId: SPAN });
    const { lines } = readAudit(join(place.folder, 'audit.log'));
    expect(made!.attributes).toEqual({
      'http.request.method': 'POST',
      'http.route': T,
      'url.path': T,
      'http.response.status_code': 200,
      'standin.request_id': lines[0].request_id,
      'standin.client_id': node.client_id,
      'standin.values': 1,
    });
    expect(lines[0]).toMatchObject({ trace_id: TRACE, parent_id: SPAN, span_id: made!.spanId });
    const [vault] = collector.spans.filter(({ parentSpanId }) => parentSpanId === made!.spanId);
    expect(vault).toMatchObject({ name: 'vault', kind: INTERNAL_KIND, traceId: TRACE });
    expect(vault!.durationMs).toBeLessThanOrEqual(made!.durationMs);
    const STATUS = 'http.response.status_code';
    expect(collector.spans.flatMap(({ attributes }) => attributes[STATUS] ?? [])).toEqual([
      200, 200, 400, 401,
    ]);
    expect(spansOf('vault')).toHaveLength(3);
    expect(collector.headers['x-tenant']).toBe('one two');
    expect(collector.resource).toMatchObject({
      ...{ 'service.name': 'vault of tests', team: 'a,b', 'service.version': VERSION },
      'deployment.environment.name': 'test',
    });
    const [first] = logged(node, '"duration_ms"');
    expect(first).toMatchObject({ trace_id: TRACE, span_id: made!.spanId });
    for (const secret of ['zq', 'Canary', 'stk_', token])
      expect(collector.text).not.toContain(secret);
  });

  test('of a failure have its status', async () => {
    const node = await start({ AUDIT_LOG: '/dev/full', AUDIT_REQUIRED: 'true' });
    expect((await call(node, 'tokenize', { a: '1' })).status).toBe(500);
    await node.stop();
    const [failed] = spansOf(`POST ${T}`);
    expect(failed).toMatchObject({ status: 2, attributes: { 'error.type': '500' } });
  });
});

test.each([
  ['always_on', '0', [true, true, false]],
  ['always_off', '1', []],
  ['traceidratio', '1', [true, true, false]],
  ['parentbased_always_on', '0', [true, false]],
  ['parentbased_always_off', '1', [true]],
  ['parentbased_traceidratio', '0', [true]],
])('the sampler %s with %s decides which requests have spans', async (name, ratio, expected) => {
  const sampler = { OTEL_TRACES_SAMPLER: name, OTEL_TRACES_SAMPLER_ARG: ratio };
  const settings = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...sampler };
  const tracing = await openTracing(parseConfig(settings).tracing!, () => {});
  const of = { trace_id: TRACE, parent_id: SPAN };
  const callers = [{ correlation: of, isSampled: true }, { correlation: of }, { correlation: {} }];
  for (const caller of callers) {
    const request = { method: 'POST', route: T, request_id: 'id', isSampled: false, ...caller };
    const span = tracing.begin({ ...request, startedAtMs: performance.now() });
    span.end({ status: 200, values: 1, client_id: undefined });
  }
  await tracing.close();
  expect(collector.spans.map(({ traceId }) => traceId === TRACE)).toEqual(expected);
});

describe('a collector', () => {
  test('that refuses, or is gone, is told once, and costs no request', async () => {
    collector.mode = 'refuse';
    const node = await start();
    const told = () => node.output().split('the collector does not take spans').length - 1;
    const works = async () => expect((await call(node, 'tokenize', { a: '1' })).status).toBe(200);
    await works();
    await until(() => told() === 1, 'the warning');
    const { requests } = collector;
    await works();
    await until(() => collector.requests > requests, 'another try');
    collector.mode = 'take';
    await until(async () => {
      await works();
      return node.output().includes('the collector takes spans again');
    }, 'that it is back');
    expect(told()).toBe(1);
    expect(collector.spans.length).toBeGreaterThan(0);
    collector.stop();
    for (let i = 0; i < 20; i++) await works();
    await node.stop();
    expect(await node.exit).toBe(0);
  });

  test('that hangs does not hold a request, and not the end of the node', async () => {
    collector.mode = 'hang';
    const node = await start();
    for (let i = 0; i < 200; i++)
      expect((await call(node, 'tokenize', { a: '1' })).status).toBe(200);
    await until(() => collector.requests > 0, 'a request that hangs');
    await node.stop();
    expect(await node.exit).toBe(0);
  });

  test('that hangs leaves a bounded number of spans in memory', async () => {
    collector.mode = 'hang';
    const { tracing: options } = parseConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
    const tracing = await openTracing(options!, () => {});
    const request = { method: 'POST', route: T, request_id: 'id', correlation: {} };
    for (let i = 0; i < 20_000; i++) {
      const span = tracing.begin({ ...request, isSampled: false, startedAtMs: performance.now() });
      span.end({ status: 200, values: 1, client_id: undefined });
    }
    await until(() => collector.requests > 0, 'the first batch');
    collector.mode = 'take';
    await tracing.close();
    // 2,048 that wait, and the batch of 512 that hangs, which may be sent again.
    expect(collector.spans.length).toBeGreaterThan(0);
    expect(collector.spans.length).toBeLessThanOrEqual(2_560);
  });
});

test('without the packages, a start ends with the command that installs them', async () => {
  const hook = `export async function resolve(name, context, next) {
    if (name.startsWith('@opentelemetry/')) throw Object.assign(new Error(), { code: 'ERR_MODULE_NOT_FOUND' });
    return next(name, context);
  }`;
  const file = join(place.folder, 'without.mjs');
  const url = JSON.stringify(`data:text/javascript,${encodeURIComponent(hook)}`);
  writeFileSync(file, `import { register } from 'node:module'; register(${url});`);
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, NODE_OPTIONS: `--import=${file}` };
  const { code, stderr } = await runCli(['serve'], place, { PORT: '0', OPS_PORT: '0', ...env });
  expect(code).toBe(1);
  expect(stderr).toMatch(
    /needs packages of OpenTelemetry, .*\(ERR_MODULE_NOT_FOUND\)\. Run: npm install /,
  );
});
