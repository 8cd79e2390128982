import { Counter, Gauge, type Registry } from 'prom-client';

interface ClientCounts {
  readonly requests: number;
  readonly replaced: number;
  readonly passed: number;
}

/** Read at each scrape. Those that end in `_total` are counters, which count since the start. */
const METRICS = {
  expiredRecords: [
    'standin_expired_records_total',
    'Expired records whose values this node removed.',
  ],
  droppedLogLines: [
    'standin_log_lines_dropped_total',
    'Log lines that standard output did not take.',
  ],
  vaultRows: ['standin_vault_rows', 'Records in the vault; an estimate above 200,000.'],
  bytesHeld: ['standin_held_bytes', 'Bytes of MEMORY_BUDGET in use.'],
  licenseDaysLeft: [
    'standin_license_days_left',
    'Days until the license expires: negative after, 0 when it is invalid.',
  ],
  rateLimitShared: [
    'standin_rate_limit_shared',
    '1: nodes share rate limits; 0: Redis is away, this node limits alone.',
  ],
  postgresSafe: [
    'standin_postgres_safe',
    '1: PostgreSQL keeps what it acknowledges; 0: a crash can lose tokens.',
  ],
  keyringAge: [
    'standin_keyring_age_seconds',
    'Time since the keyring was last read, with every key in it unwrapped.',
  ],
  issuerKeysAge: [
    'standin_issuer_keys_age_seconds',
    'Time since the keys of JWT_ISSUER were last fetched; from 3600 on, no JWT is accepted.',
  ],
  keyVersion: ['standin_key_version', 'Version of the DEK that seals new records.'],
  certificateExpires: [
    'standin_tls_certificate_expires_seconds',
    'Expiry of the public certificate, as a Unix time.',
  ],
} as const;

/** Where the metrics are read. An absent one is not shown. */
export type Gauges = { readonly [Name in keyof typeof METRICS]?: GaugeRead | undefined } & {
  readonly clientCounts?: () => ReadonlyMap<string, ClientCounts>;
};

type GaugeRead = () => number | boolean | Date | Promise<number>;

export function addGauges(registers: Registry[], { clientCounts, ...gauges }: Gauges): void {
  if (clientCounts !== undefined) addClientCounters(registers, clientCounts);
  for (const [gauge, read] of Object.entries(gauges)) {
    const [name, help] = METRICS[gauge as keyof typeof METRICS];
    if (read !== undefined) addGauge(registers, name, help, read);
  }
}

function addGauge(registers: Registry[], name: string, help: string, read: GaugeRead): void {
  const Metric = name.endsWith('_total') ? Counter : Gauge;
  new Metric({
    name,
    help,
    registers,
    async collect() {
      try {
        const value = await read();
        this.reset();
        this.inc(value instanceof Date ? value.getTime() / 1000 : Number(value));
      } catch {
        // The last value stays: the scrape must work while the database is away.
      }
    },
  });
}

function addClientCounters(
  registers: Registry[],
  clientCounts: () => ReadonlyMap<string, ClientCounts>,
): void {
  new Counter({
    name: 'standin_client_requests_total',
    help: 'Requests of a client, refused ones too; the 1,000 oldest clients by name.',
    labelNames: ['client_id'],
    registers,
    collect() {
      this.reset();
      for (const [clientId, { requests }] of clientCounts())
        this.inc({ client_id: clientId }, requests);
    },
  });
  new Counter({
    name: 'standin_client_strings_total',
    help: 'Strings of a client under a policy with fields, replaced or passed in clear.',
    labelNames: ['client_id', 'outcome'],
    registers,
    collect() {
      this.reset();
      for (const [clientId, { replaced, passed }] of clientCounts()) {
        this.inc({ client_id: clientId, outcome: 'replaced' }, replaced);
        this.inc({ client_id: clientId, outcome: 'passed' }, passed);
      }
    },
  });
}
