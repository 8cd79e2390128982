import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { DEFAULT_SPACE, type LimitName } from './types.ts';
import { VERSION } from './version.ts';

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
  'standin_rate_limit_shared',
  'standin_postgres_safe',
];

/** Read at each scrape. An absent gauge is not shown. */
interface Gauges {
  readonly vaultRows?: () => Promise<number>;
  /** Requests of each client, counted since the start. */
  readonly clientRequests?: () => ReadonlyMap<string, number>;
  /** Counted since the start, as the next one. */
  readonly expiredRecords?: () => number;
  readonly droppedLogLines?: () => number;
  /** Bytes of MEMORY_BUDGET that current requests hold. */
  readonly bytesHeld?: () => number;
  /** undefined: no license is configured. */
  readonly licenseDaysLeft?: (() => number) | undefined;
  /** undefined: nodes do not share limits. */
  readonly rateLimitShared?: (() => boolean) | undefined;
  /** undefined: the embedded database promises nothing. */
  readonly postgresSafe?: (() => boolean) | undefined;
  readonly keyVersion?: () => number;
  /** Seconds since the whole keyring was last read. */
  readonly keyringAge?: () => number;
  /** undefined: no TLS. */
  readonly certificateExpires?: (() => Date) | undefined;
}

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
  const { requests, duration, values, batches } = workMetrics(registers);
  const { rejections, unknown, unaudited, damaged } = troubleMetrics(registers);
  const { handshakes, shed, refusedConnections, unread, cut } = connectionMetrics(registers);
  return {
    request(route: string, status: number, durationMs: number): void {
      requests.inc({ route, status });
      duration.observe({ route }, durationMs / 1000);
    },
    values,
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

/** @param labelNames of the series */
function counterIn(registers: Registry[]) {
  return <T extends string>(name: string, help: string, ...labelNames: T[]) =>
    new Counter({ name, help, labelNames, registers });
}

function workMetrics(registers: Registry[]) {
  const counter = counterIn(registers);
  return {
    requests: counter('standin_requests_total', 'Requests answered.', 'route', 'status'),
    duration: new Histogram({
      name: 'standin_request_duration_seconds',
      help: 'Time from the headers of a request to its answer.',
      labelNames: ['route'],
      buckets: LATENCY_BUCKETS_S,
      registers,
    }),
    values: valuesIn(registers),
    batches: new Histogram({
      name: 'standin_batch_records',
      help: 'Records in one statement to the vault.',
      labelNames: ['statement'],
      buckets: BATCH_BUCKETS,
      registers,
    }),
  };
}

/** Values of each kind; undefined: without a policy and a space. */
export type KindCounts = ReadonlyMap<string, number>;

function valuesIn(registers: Registry[]) {
  const help = 'Values tokenized and detokenized.';
  const values = counterIn(registers)('standin_values_total', help, 'operation', 'space', 'kind');
  const named = new Set<string>();
  const labelsOf = (space: string, kind: string) => {
    const pair = `${space} ${kind}`;
    if (named.size < MAX_COUNTED_KINDS) named.add(pair);
    if (!named.has(pair)) return { space: OTHERS, kind: OTHERS };
    return space === DEFAULT_SPACE ? { kind } : { space, kind };
  };
  return (operation: string, count: number, space = DEFAULT_SPACE, kinds?: KindCounts) => {
    if (kinds === undefined) return values.inc({ operation }, count);
    for (const [kind, ofKind] of kinds) values.inc({ operation, ...labelsOf(space, kind) }, ofKind);
  };
}

function troubleMetrics(registers: Registry[]) {
  const counter = counterIn(registers);
  const rejections = counter(
    'standin_rate_limit_rejections_total',
    'Requests refused because a client was over a limit.',
    'limit',
  );
  // Start at 0, so that an alert on a rise sees the first rejection.
  for (const limit of LIMITS) rejections.inc({ limit }, 0);
  return {
    rejections,
    unknown: counter('standin_unknown_tokens_total', 'Unknown tokens sent to detokenize.'),
    unaudited: counter('standin_audit_failures_total', 'Audit lines that could not be written.'),
    damaged: counter(
      'standin_damaged_records_total',
      'Records that failed authentication: the vault was changed.',
    ),
  };
}

function connectionMetrics(registers: Registry[]) {
  const counter = counterIn(registers);
  return {
    handshakes: counter(
      'standin_tls_handshake_failures_total',
      'Connections whose TLS handshake failed.',
      'reason',
    ),
    shed: counter(
      'standin_requests_shed_total',
      'Requests shed: refused with 503 before they were read.',
    ),
    refusedConnections: counter(
      'standin_connections_refused_total',
      'Connections refused because the node has as many as it accepts.',
    ),
    unread: counter(
      'standin_unread_answers_total',
      'Connections cut because an answer was not read.',
    ),
    cut: counter(
      'standin_stalled_requests_total',
      'Requests cut off because memory was short and the caller idle.',
    ),
  };
}

function addGauges(registers: Registry[], gauges: Gauges): void {
  const { rateLimitShared, postgresSafe, certificateExpires } = gauges;
  const add = (name: string, help: string, read: Read | undefined) =>
    read && addGauge(registers, name, help, read);
  if (gauges.clientRequests !== undefined) addClientRequests(registers, gauges.clientRequests);
  addCounter(
    registers,
    'standin_expired_records_total',
    'Expired records whose values this node removed.',
    gauges.expiredRecords,
  );
  addCounter(
    registers,
    'standin_log_lines_dropped_total',
    'Log lines that standard output did not take.',
    gauges.droppedLogLines,
  );
  add('standin_vault_rows', 'Records in the vault; an estimate above 200,000.', gauges.vaultRows);
  add('standin_held_bytes', 'Bytes of MEMORY_BUDGET in use.', gauges.bytesHeld);
  add(
    'standin_license_days_left',
    'Days until the license expires: negative after, 0 when it is invalid.',
    gauges.licenseDaysLeft,
  );
  add(
    'standin_rate_limit_shared',
    '1: nodes share rate limits; 0: Redis is away, this node limits alone.',
    rateLimitShared && (() => Number(rateLimitShared())),
  );
  add(
    'standin_postgres_safe',
    '1: PostgreSQL keeps what it acknowledges; 0: a crash can lose tokens.',
    postgresSafe && (() => Number(postgresSafe())),
  );
  add(
    'standin_keyring_age_seconds',
    'Time since the keyring was last read, with every key in it unwrapped.',
    gauges.keyringAge,
  );
  add('standin_key_version', 'Version of the DEK that seals new records.', gauges.keyVersion);
  add(
    'standin_tls_certificate_expires_seconds',
    'Expiry of the public certificate, as a Unix time.',
    certificateExpires && (() => certificateExpires().getTime() / 1000),
  );
}

type Read = () => number | Promise<number>;

function addGauge(registers: Registry[], name: string, help: string, read: Read): void {
  new Gauge({
    name,
    help,
    registers,
    async collect() {
      try {
        const value = read();
        this.set(typeof value === 'number' ? value : await value);
      } catch {
        // The last value stays: the scrape must work while the database is away.
      }
    },
  });
}

function addCounter(
  registers: Registry[],
  name: string,
  help: string,
  read: (() => number) | undefined,
): void {
  if (read === undefined) return;
  new Counter({
    name,
    help,
    registers,
    collect() {
      this.reset();
      this.inc(read());
    },
  });
}

function addClientRequests(
  registers: Registry[],
  clientRequests: () => ReadonlyMap<string, number>,
): void {
  new Counter({
    name: 'standin_client_requests_total',
    help: 'Requests of a client, refused ones too; the 1,000 oldest clients by name.',
    labelNames: ['client_id'],
    registers,
    collect() {
      this.reset();
      for (const [clientId, requests] of clientRequests())
        this.inc({ client_id: clientId }, requests);
    },
  });
}
