import { Counter, Gauge, type Registry } from 'prom-client';

/** Read at each scrape. An absent gauge is not shown. */
export interface Gauges {
  readonly vaultRows?: () => Promise<number>;
  /** Of each client, counted since the start. */
  readonly clientCounts?: () => ReadonlyMap<string, ClientCounts>;
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
  /** Seconds since the keys of JWT_ISSUER were fetched. */
  readonly issuerKeysAge?: () => number;
  /** undefined: no TLS. */
  readonly certificateExpires?: (() => Date) | undefined;
}

interface ClientCounts {
  readonly requests: number;
  readonly replaced: number;
  readonly passed: number;
}

export function addGauges(registers: Registry[], gauges: Gauges): void {
  const { rateLimitShared, postgresSafe, certificateExpires } = gauges;
  const add = (name: string, help: string, read: Read | undefined) =>
    read && addGauge(registers, name, help, read);
  if (gauges.clientCounts !== undefined) addClientCounters(registers, gauges.clientCounts);
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
  add(
    'standin_issuer_keys_age_seconds',
    'Time since the keys of JWT_ISSUER were last fetched; from 3600 on, no JWT is accepted.',
    gauges.issuerKeysAge,
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
