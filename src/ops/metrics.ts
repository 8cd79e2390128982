import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

const LATENCY_BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const BATCH_BUCKETS = [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000];
const ROWS_FRESH_FOR_MS = 60_000;

/** Read when metrics are scraped; what is not there is not shown. */
export interface Gauges {
  readonly vaultRows?: () => Promise<number>;
  /** Counted since the start. */
  readonly expiredRecords?: () => number;
  /** undefined: no license is asked for. */
  readonly licenseDaysLeft?: (() => number) | undefined;
  /** undefined: limits are not meant to be shared. */
  readonly rateLimitShared?: (() => boolean) | undefined;
  readonly keyVersion?: () => number;
  /** Seconds since the keyring was last read whole. */
  readonly keyringAge?: () => number;
}

export type Metrics = ReturnType<typeof createMetrics>;

/** Metrics of one process as they go to the one that shows them. */
export type Snapshot = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/**
 * All metrics of a process, in the text format of Prometheus.
 * @param worker label of what Node tells of the process; undefined: there is one process
 */
export function createMetrics(worker?: string) {
  const registry = processRegistry(worker);
  const registers = [registry];
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
    help: 'Records of one statement to the vault.',
    labelNames: ['statement'],
    buckets: BATCH_BUCKETS,
    registers,
  });
  const rejections = new Counter({
    name: 'standin_rate_limit_rejections_total',
    help: 'Requests refused because the client was over its rate limit.',
    registers,
  });
  const damaged = new Counter({
    name: 'standin_damaged_records_total',
    help: 'Records that failed authentication: somebody changed the vault. Alert on any.',
    registers,
  });
  return {
    request(route: string, status: number, duration_ms: number): void {
      requests.inc({ route, status });
      duration.observe({ route }, duration_ms / 1000);
    },
    values: (operation: 'tokenize' | 'detokenize', count: number) =>
      values.inc({ operation }, count),
    batch: (statement: 'insert' | 'find', records: number) =>
      batches.observe({ statement }, records),
    rejection: () => rejections.inc(),
    damaged: (records: number) => damaged.inc(records),
    observe: (gauges: Gauges) => addGauges(registers, gauges),
    snapshot: (): Promise<Snapshot> => registry.getMetricsAsJSON(),
    text: () => registry.metrics(),
    content_type: registry.contentType,
  };
}

/** With what Node tells of a process. */
export function processRegistry(worker: string | undefined): Registry {
  const register = new Registry();
  collectDefaultMetrics({ register, labels: worker === undefined ? {} : { worker } });
  return register;
}

export function addGauges(registers: Registry[], gauges: Gauges): void {
  const { vaultRows, expiredRecords, licenseDaysLeft, rateLimitShared } = gauges;
  if (vaultRows !== undefined) addVaultRows(registers, vaultRows);
  if (expiredRecords !== undefined) {
    new Counter({
      name: 'standin_expired_records_total',
      help: 'Records whose values this node removed after their time to live.',
      registers,
      collect() {
        this.reset();
        this.inc(expiredRecords());
      },
    });
  }
  if (licenseDaysLeft !== undefined) {
    new Gauge({
      name: 'standin_license_days_left',
      help: 'Days until the license expires: negative after, 0 when it is invalid.',
      registers,
      collect() {
        this.set(licenseDaysLeft());
      },
    });
  }
  if (rateLimitShared !== undefined) {
    new Gauge({
      name: 'standin_rate_limit_shared',
      help: '1: all nodes share the rate limits; 0: Redis is away and this node limits on its own.',
      registers,
      aggregator: 'min',
      collect() {
        this.set(Number(rateLimitShared()));
      },
    });
  }
  addKeyGauges(registers, gauges);
}

function addKeyGauges(registers: Registry[], { keyVersion, keyringAge }: Gauges): void {
  if (keyringAge !== undefined) {
    new Gauge({
      name: 'standin_keyring_age_seconds',
      help: 'Time since the keyring was last read, with every key in it unwrapped.',
      registers,
      collect() {
        this.set(keyringAge());
      },
    });
  }
  if (keyVersion !== undefined) {
    new Gauge({
      name: 'standin_key_version',
      help: 'Version of the dek key that new records are sealed with.',
      registers,
      aggregator: 'min',
      collect() {
        this.set(keyVersion());
      },
    });
  }
}

function addVaultRows(registers: Registry[], vaultRows: () => Promise<number>): void {
  let counted_at_ms = -Infinity;
  new Gauge({
    name: 'standin_vault_rows',
    help: 'Records in the vault; an estimate above 200,000.',
    registers,
    async collect() {
      if (performance.now() - counted_at_ms < ROWS_FRESH_FOR_MS) return;
      try {
        this.set(await vaultRows());
        counted_at_ms = performance.now();
      } catch {
        // The last count stays: the scrape must work while the database is away.
      }
    },
  });
}
