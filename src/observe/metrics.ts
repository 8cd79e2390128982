import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { DEFAULT_SPACE, type LimitName } from '../types.ts';
import { VERSION } from '../version.ts';

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

/** Values of some metrics, with their labels. */
export type Snapshot = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/** Read at each scrape. Those that end in `_total` are counters, which count since the start. */
const OBSERVED = {
  standin_expired_records_total: 'Expired records whose values this node removed.',
  standin_log_lines_dropped_total: 'Log lines that standard output did not take.',
  standin_vault_rows: 'Records in the vault; an estimate above 200,000.',
  standin_held_bytes: 'Bytes of MEMORY_BUDGET in use.',
  standin_license_days_left:
    'Days until the license expires: negative after, 0 when it is invalid.',
  standin_rate_limit_shared:
    '1: nodes share rate limits; 0: Redis is away, this node limits alone.',
  standin_postgres_safe: '1: PostgreSQL keeps what it acknowledges; 0: a crash can lose tokens.',
  standin_keyring_age_seconds:
    'Time since the keyring was last read, with every key in it unwrapped.',
  standin_issuer_keys_age_seconds:
    'Time since the keys of JWT_ISSUER were last fetched; from 3600 on, no JWT is accepted.',
  standin_key_version: 'Version of the DEK that seals new records.',
  standin_tls_certificate_expires_seconds: 'Expiry of the public certificate, as a Unix time.',
} as const;

/** Where the metrics are read. An absent one is not shown. */
type Observed = {
  readonly [Name in keyof typeof OBSERVED]?: (() => Reading | Promise<Reading>) | undefined;
};
type Reading = number | boolean | Date;

type ClientCounts = Readonly<Record<'requests' | 'replaced' | 'passed', number>>;

/** Creates all metrics of the node, in the text format of Prometheus. */
export function createMetrics() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  const help = "1, with the program's version.";
  addRead(registers, 'standin_build_info', help, () => [[{ version: VERSION }, 1]], 'version');
  return {
    ...workMetrics(registers),
    ...troubleMetrics(registers),
    observe: (observed: Observed) => addObserved(registers, observed),
    observeClients: (counts: () => ReadonlyMap<string, ClientCounts>) =>
      addClients(registers, counts),
    read: async (names: readonly string[]): Promise<Snapshot> => {
      const there = names.map((name) => registry.getSingleMetric(name));
      const read = there.flatMap((metric) => (metric === undefined ? [] : [metric.get()]));
      return (await Promise.all(read)) as Snapshot;
    },
    text: () => registry.metrics(),
    content_type: registry.contentType,
  };
}

type Series = Iterable<readonly [labels: Record<string, string>, value: number]>;

/** A metric whose series are read at each scrape. */
function addRead(
  registers: Registry[],
  name: string,
  help: string,
  read: () => Series | Promise<Series>,
  ...labelNames: string[]
): void {
  const Metric = name.endsWith('_total') ? Counter : Gauge;
  new Metric({
    ...{ name, help, labelNames, registers },
    async collect() {
      try {
        const series = await read();
        this.reset();
        for (const [labels, value] of series) this.inc(labels, value);
      } catch {
        // The last value stays: the scrape must work while the database is away.
      }
    },
  });
}

function addObserved(registers: Registry[], observed: Observed): void {
  for (const [name, read] of Object.entries(observed)) {
    if (read === undefined) continue;
    addRead(registers, name, OBSERVED[name as keyof Observed], async () => {
      const value = await read();
      return [[{}, value instanceof Date ? value.getTime() / 1000 : Number(value)]];
    });
  }
}

function addClients(registers: Registry[], counts: () => ReadonlyMap<string, ClientCounts>): void {
  addRead(
    registers,
    'standin_client_requests_total',
    'Requests of a client, refused ones too; the 1,000 oldest clients by name.',
    () => [...counts()].map(([id, { requests }]) => [{ client_id: id }, requests]),
    'client_id',
  );
  addRead(
    registers,
    'standin_client_strings_total',
    'Strings of a client under a policy with fields, replaced or passed in clear.',
    () =>
      [...counts()].flatMap(([id, { replaced, passed }]) => [
        [{ client_id: id, outcome: 'replaced' }, replaced],
        [{ client_id: id, outcome: 'passed' }, passed],
      ]),
    ...['client_id', 'outcome'],
  );
}

function counterIn(registers: Registry[]) {
  return (name: string, help: string, ...labelNames: string[]) =>
    new Counter({ name, help, labelNames, registers });
}

function workMetrics(registers: Registry[]) {
  const counter = counterIn(registers);
  const requests = counter('standin_requests_total', 'Requests answered.', 'route', 'status');
  const duration = new Histogram({
    name: 'standin_request_duration_seconds',
    help: 'Time from the headers of a request to its answer.',
    ...{ labelNames: ['route'], buckets: LATENCY_BUCKETS_S, registers },
  });
  const batches = new Histogram({
    name: 'standin_batch_records',
    help: 'Records in one statement to the vault.',
    ...{ labelNames: ['statement'], buckets: BATCH_BUCKETS, registers },
  });
  const shed = counter(
    'standin_requests_shed_total',
    'Requests shed: refused with 503 before they were read.',
  );
  return {
    request(route: string, status: number, durationMs: number): void {
      requests.inc({ route, status });
      duration.observe({ route }, durationMs / 1000);
    },
    values: valuesIn(registers),
    detections: detectionsIn(registers),
    batch: (statement: 'insert' | 'find', records: number) =>
      batches.observe({ statement }, records),
    shed(route: string, count: number): void {
      shed.inc(count);
      requests.inc({ route, status: 503 }, count);
    },
  };
}

function troubleMetrics(registers: Registry[]) {
  const counter = counterIn(registers);
  const count = (name: string, help: string) => {
    const counted = counter(name, help);
    return (more = 1) => counted.inc(more);
  };
  const rejections = counter(
    'standin_rate_limit_rejections_total',
    'Requests refused because a client was over a limit.',
    'limit',
  );
  // Start at 0, so that an alert on a rise sees the first rejection.
  for (const limit of LIMITS) rejections.inc({ limit }, 0);
  const failed = 'Connections whose TLS handshake failed.';
  const handshakes = counter('standin_tls_handshake_failures_total', failed, 'reason');
  const damaged = 'Records that failed authentication: the vault was changed.';
  const refused = 'Connections refused because the node has as many as it accepts.';
  const unread = 'Connections cut because an answer was not read.';
  const stalled = 'Requests cut off because memory was short and the caller idle.';
  return {
    rejection: (limit: LimitName) => rejections.inc({ limit }),
    handshakeFailure: (reason: string) => handshakes.inc({ reason }),
    unknownTokens: count('standin_unknown_tokens_total', 'Unknown tokens sent to detokenize.'),
    unaudited: count('standin_audit_failures_total', 'Audit lines that could not be written.'),
    damaged: count('standin_damaged_records_total', damaged),
    connectionRefused: count('standin_connections_refused_total', refused),
    unreadAnswer: count('standin_unread_answers_total', unread),
    cutOff: count('standin_stalled_requests_total', stalled),
  };
}

/** Values of each kind; undefined: without a policy and a space. */
export type KindCounts = ReadonlyMap<string, number>;

function valuesIn(registers: Registry[]) {
  // Counted here and read at each scrape, because a request may have many kinds.
  const series = new Map<string, { readonly labels: Record<string, string>; count: number }>();
  addRead(
    registers,
    'standin_values_total',
    'Values tokenized and detokenized.',
    () => [...series.values()].map(({ labels, count }) => [labels, count]),
    ...['operation', 'space', 'kind'],
  );
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

/** Of every policy since the start, so kinds have a bound. */
function detectionsIn(registers: Registry[]) {
  const help = 'Values found in texts, by the kind and by what found them.';
  const found = counterIn(registers)('standin_detections_total', help, 'kind', 'detector');
  const kinds = new Set<string>();
  return (all: readonly { readonly kind: string; readonly finder: string }[]): void => {
    for (const { kind, finder: detector } of all) {
      if (kinds.size < MAX_COUNTED_KINDS) kinds.add(kind);
      found.inc({ kind: kinds.has(kind) ? kind : OTHERS, detector });
    }
  };
}
