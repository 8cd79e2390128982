import { Counter, collectDefaultMetrics, Histogram, Registry } from 'prom-client';
import type { LimitName } from '../types.ts';
import { addGauges, type Gauges } from './gauges.ts';

/** Dense where most answers fall, because quantiles are interpolated within a bucket. */
const LATENCY_BUCKETS_S = [
  0.00025, 0.0005, 0.001, 0.0015, 0.0025, 0.0035, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.035, 0.05,
  0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5,
];
const BATCH_BUCKETS = [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000];

const LIMITS: readonly LimitName[] = ['requests', 'detokenize', 'unknown_tokens'];

export type Metrics = ReturnType<typeof createMetrics>;

/** Values of the sampled metrics, with their labels. */
export type Snapshot = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/**
 * The metrics that the console shows. It reads them every few seconds, so only cheap ones are here.
 */
const SAMPLED = [
  'standin_requests_total',
  'standin_request_duration_seconds',
  'standin_values_total',
  'standin_batch_records',
  'standin_rate_limit_rejections_total',
  'standin_requests_shed_total',
  'standin_client_requests_total',
  'standin_rate_limit_shared',
  'standin_postgres_safe',
];

/** Creates all metrics of the node, in the text format of Prometheus. */
export function createMetrics() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  const { requests, duration, values, batches } = workMetrics(registers);
  const { rejections, unknown, unaudited, damaged } = troubleMetrics(registers);
  const { handshakes, shed, refusedConnections, unread, cut } = connectionMetrics(registers);
  return {
    request(route: string, status: number, durationMs: number): void {
      requests.inc({ route, status });
      duration.observe({ route }, durationMs / 1000);
    },
    values: (operation: 'tokenize' | 'detokenize', count: number) =>
      values.inc({ operation }, count),
    batch: (statement: 'insert' | 'find', records: number) =>
      batches.observe({ statement }, records),
    rejection: (limit: LimitName) => rejections.inc({ limit }),
    unknownTokens: (tokens: number) => unknown.inc(tokens),
    unaudited: (lines: number) => unaudited.inc(lines),
    shed(route: string, count: number): void {
      shed.inc(count);
      requests.inc({ route, status: 503 }, count);
    },
    connectionRefused: () => refusedConnections.inc(),
    unreadAnswer: () => unread.inc(),
    cutOff: () => cut.inc(),
    handshakeFailure: (reason: string) => handshakes.inc({ reason }),
    damaged: (records: number) => damaged.inc(records),
    observe: (gauges: Gauges) => addGauges(registers, gauges),
    sampled: async (): Promise<Snapshot> => {
      const there = SAMPLED.map((name) => registry.getSingleMetric(name));
      const read = there.flatMap((metric) => (metric === undefined ? [] : [metric.get()]));
      return (await Promise.all(read)) as Snapshot;
    },
    text: () => registry.metrics(),
    content_type: registry.contentType,
  };
}

function workMetrics(registers: Registry[]) {
  const requests = new Counter({
    name: 'standin_requests_total',
    help: 'Requests answered.',
    labelNames: ['route', 'status'],
    registers,
  });
  const duration = new Histogram({
    name: 'standin_request_duration_seconds',
    help: 'Time from the headers of a request to its answer.',
    labelNames: ['route'],
    buckets: LATENCY_BUCKETS_S,
    registers,
  });
  const values = new Counter({
    name: 'standin_values_total',
    help: 'Values tokenized and detokenized.',
    labelNames: ['operation'],
    registers,
  });
  const batches = new Histogram({
    name: 'standin_batch_records',
    help: 'Records in one statement to the vault.',
    labelNames: ['statement'],
    buckets: BATCH_BUCKETS,
    registers,
  });
  return { requests, duration, values, batches };
}

function troubleMetrics(registers: Registry[]) {
  const rejections = new Counter({
    name: 'standin_rate_limit_rejections_total',
    help: 'Requests refused because a client was over a limit.',
    labelNames: ['limit'],
    registers,
  });
  // Start at 0, so that an alert on a rise sees the first rejection.
  for (const limit of LIMITS) rejections.inc({ limit }, 0);
  const unknown = new Counter({
    name: 'standin_unknown_tokens_total',
    help: 'Unknown tokens sent to detokenize.',
    registers,
  });
  const unaudited = new Counter({
    name: 'standin_audit_failures_total',
    help: 'Audit lines that could not be written.',
    registers,
  });
  const damaged = new Counter({
    name: 'standin_damaged_records_total',
    help: 'Records that failed authentication: the vault was changed.',
    registers,
  });
  return { rejections, unknown, unaudited, damaged };
}

function connectionMetrics(registers: Registry[]) {
  const handshakes = new Counter({
    name: 'standin_tls_handshake_failures_total',
    help: 'Connections whose TLS handshake failed.',
    labelNames: ['reason'],
    registers,
  });
  const shed = new Counter({
    name: 'standin_requests_shed_total',
    help: 'Requests shed: refused with 503 before they were read.',
    registers,
  });
  const refusedConnections = new Counter({
    name: 'standin_connections_refused_total',
    help: 'Connections refused because the node has as many as it accepts.',
    registers,
  });
  const unread = new Counter({
    name: 'standin_unread_answers_total',
    help: 'Connections cut because an answer was not read.',
    registers,
  });
  const cut = new Counter({
    name: 'standin_stalled_requests_total',
    help: 'Requests cut off because memory was short and the caller idle.',
    registers,
  });
  return { handshakes, shed, refusedConnections, unread, cut };
}
