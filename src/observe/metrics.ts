import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { DEFAULT_SPACE, type LimitName } from '../types.ts';
import { VERSION } from '../version.ts';
import { addGauges, type Gauges } from './gauges.ts';

/** Dense where most answers fall, because quantiles are interpolated within a bucket. */
const LATENCY_BUCKETS_S = [
  0.00025, 0.0005, 0.001, 0.0015, 0.0025, 0.0035, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.035, 0.05,
  0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5,
];
const BATCH_BUCKETS = [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000];

/** Each pair of space and kind is a series. Operators choose both, but may have many. */
const MAX_COUNTED_KINDS = 1_000;
/** No name of a space or kind: these begin with a letter. */
const OTHERS = '_other';

const LIMITS: readonly LimitName[] = ['requests', 'detokenize', 'lookup', 'unknown_tokens'];

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
  'standin_client_strings_total',
  'standin_rate_limit_shared',
  'standin_postgres_safe',
];

/** Creates all metrics of the node, in the text format of Prometheus. */
export function createMetrics() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  new Gauge({
    name: 'standin_build_info',
    help: "1, with the program's version.",
    labelNames: ['version'],
    registers,
  }).set({ version: VERSION }, 1);
  return {
    ...workMetrics(registers),
    ...troubleMetrics(registers),
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
  const batches = new Histogram({
    name: 'standin_batch_records',
    help: 'Records in one statement to the vault.',
    labelNames: ['statement'],
    buckets: BATCH_BUCKETS,
    registers,
  });
  const shed = new Counter({
    name: 'standin_requests_shed_total',
    help: 'Requests shed: refused with 503 before they were read.',
    registers,
  });
  return {
    request(route: string, status: number, durationMs: number): void {
      requests.inc({ route, status });
      duration.observe({ route }, durationMs / 1000);
    },
    values: valuesIn(registers),
    batch: (statement: 'insert' | 'find', records: number) =>
      batches.observe({ statement }, records),
    shed(route: string, count: number): void {
      shed.inc(count);
      requests.inc({ route, status: 503 }, count);
    },
  };
}

function troubleMetrics(registers: Registry[]) {
  const count = (name: string, help: string) => {
    const counter = new Counter({ name, help, registers });
    return (more = 1) => counter.inc(more);
  };
  const rejections = new Counter({
    name: 'standin_rate_limit_rejections_total',
    help: 'Requests refused because a client was over a limit.',
    labelNames: ['limit'],
    registers,
  });
  // Start at 0, so that an alert on a rise sees the first rejection.
  for (const limit of LIMITS) rejections.inc({ limit }, 0);
  const handshakes = new Counter({
    name: 'standin_tls_handshake_failures_total',
    help: 'Connections whose TLS handshake failed.',
    labelNames: ['reason'],
    registers,
  });
  return {
    rejection: (limit: LimitName) => rejections.inc({ limit }),
    handshakeFailure: (reason: string) => handshakes.inc({ reason }),
    unknownTokens: count('standin_unknown_tokens_total', 'Unknown tokens sent to detokenize.'),
    unaudited: count('standin_audit_failures_total', 'Audit lines that could not be written.'),
    damaged: count(
      'standin_damaged_records_total',
      'Records that failed authentication: the vault was changed.',
    ),
    connectionRefused: count(
      'standin_connections_refused_total',
      'Connections refused because the node has as many as it accepts.',
    ),
    unreadAnswer: count(
      'standin_unread_answers_total',
      'Connections cut because an answer was not read.',
    ),
    cutOff: count(
      'standin_stalled_requests_total',
      'Requests cut off because memory was short and the caller idle.',
    ),
  };
}

/** Values of each kind; undefined: without a policy and a space. */
export type KindCounts = ReadonlyMap<string, number>;

function valuesIn(registers: Registry[]) {
  // Counted here and read at each scrape, because a request may have many kinds.
  const series = new Map<string, { readonly labels: Record<string, string>; count: number }>();
  new Counter({
    name: 'standin_values_total',
    help: 'Values tokenized and detokenized.',
    labelNames: ['operation', 'space', 'kind'],
    registers,
    collect() {
      this.reset();
      for (const { labels, count } of series.values()) this.inc(labels, count);
    },
  });
  const named = new Set<string>();
  const isNamed = (space: string, kind: string) => {
    if (named.size < MAX_COUNTED_KINDS) named.add(`${space} ${kind}`);
    return space === OTHERS || named.has(`${space} ${kind}`);
  };
  const add = (operation: string, space: string, kind: string | undefined, count: number) => {
    const key = `${operation} ${space} ${kind}`;
    const known = series.get(key);
    if (known !== undefined) known.count += count;
    else if (kind === undefined) series.set(key, { labels: { operation }, count });
    else if (!isNamed(space, kind)) add(operation, OTHERS, OTHERS, count);
    else {
      const labels = space === DEFAULT_SPACE ? { operation, kind } : { operation, space, kind };
      series.set(key, { labels, count });
    }
  };
  return (operation: string, count: number, space = DEFAULT_SPACE, kinds?: KindCounts) => {
    if (kinds === undefined) add(operation, DEFAULT_SPACE, undefined, count);
    else for (const [kind, ofKind] of kinds) add(operation, space, kind, ofKind);
  };
}
