import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from './config/config.ts';
import { errorCode, operatorError } from './errors.ts';
import { apiPages } from './http/openapi/pages.ts';
import { endOnUncaught, failureFields, isPretty, type Log, openLog } from './log.ts';
import type { Gauges } from './metrics/gauges.ts';
import { createMetrics } from './metrics/metrics.ts';
import type { Scrape } from './ops/server.ts';
import { announce, firstKey } from './process/first-client.ts';
import { type OpsListener, openOpsListener } from './process/ops-listener.ts';
import { Workers } from './process/primary.ts';
import { PublicListener } from './process/public-listener.ts';
import { Signals } from './process/signals.ts';
import { checkAuditFile } from './service/audit/audit-file.ts';
import { Certificate } from './service/certificate.ts';
import { createFirstClient } from './service/clients.ts';
import { kekSourceOf } from './service/kek/source.ts';
import { type KeyFeed, monotonicMs } from './service/keys/key-feed.ts';
import { KeyRenewal } from './service/keys/key-renewal.ts';
import { License } from './service/license.ts';
import { Expiry } from './service/records/expiry.ts';
import { openVault, type Vault } from './service/vault.ts';
import { VaultSizes } from './service/vault-size.ts';
import { KeyringStore } from './store/keyring.ts';
import { CLOSE_TIMEOUT_MS } from './timeouts.ts';
import type { TlsPem } from './types.ts';

/** For a start that has got as far as its listener, when the process is told to end. */
const OPEN_TIMEOUT_MS = 3_000;
const REMINDER_LOOK_MS = 10_000;
const REMINDER_INTERVAL_MS = 86_400_000;

/** What answers on PORT: this process, or workers of it. */
interface Front {
  readonly url: string;
  readonly metrics: Scrape;
  /** Answers for so long, with /health at 503; then finishes what is in flight. */
  stop(delay_ms: number): Promise<void>;
  /** A fresh process for each, without a request that fails. */
  restart(): void;
  /** Another certificate for connections that are made from now on. */
  renew(tls: TlsPem): void;
}

interface Parts {
  readonly config: Config;
  readonly vault: Vault;
  readonly keys: KeyFeed;
  readonly license: License;
  readonly certificate: Certificate | undefined;
  readonly gauges: Gauges;
  readonly log: Log;
  readonly onFatal: (problems: readonly string[]) => void;
}

/** The service: opens everything, listens, and ends on SIGTERM or SIGINT. */
export async function serve(config: Config): Promise<void> {
  const signals = new Signals(config.DRAIN_DELAY_MS);
  try {
    await start(config, signals);
  } catch (error) {
    // What is closed under a start that is not over fails it.
    await signals.unlessEnding();
    throw error;
  }
}

async function start(config: Config, signals: Signals): Promise<void> {
  const is_pretty = isPretty(config.LOG_FORMAT);
  const log = await openLog({ level: config.LOG_LEVEL, is_pretty });
  endOnUncaught(log);
  log.debug({}, 'starting');
  const license = new License(config.license);
  await license.start();
  if (config.AUDIT_LOG !== undefined) await checkAuditFile(config.AUDIT_LOG);
  const certificate = config.tls && new Certificate(config.tls);
  const is_embedded = config.DATABASE_URL === undefined;
  // The first start makes it, which takes seconds: people at a terminal see that something goes on.
  if (is_embedded && is_pretty) {
    log.info({ data_dir: config.DATA_DIR }, 'opening the embedded database');
  }
  const vault = await openVault(config.vault);
  const expiry = new Expiry({
    pool: vault.pool,
    onFailure: (error) => log.warn(failureFields(error), 'expired records could not be removed'),
  });
  const keys = renewedKeys(vault, config, log);
  await keys.start();
  const sizes = new VaultSizes(vault.pool);
  const gauges = gaugesOf(expiry, keys, sizes, license, certificate, config);
  const onFatal = (problems: readonly string[]) => {
    log.error({ problems }, 'workers cannot start, ending');
    signals.end(0, 1);
  };
  const open = config.WORKERS === 1 ? openAlone : openWorkers;
  log.debug({}, 'vault opened');
  const opening = open({ config, vault, keys, license, certificate, gauges, log, onFatal });
  let ops: OpsListener | undefined;
  signals.handle(
    async (delay_ms, exit_code) => {
      log.info({ delay_ms }, 'draining');
      await stopAnswering(opening, delay_ms);
      ops?.close();
      keys.stop();
      await Promise.race([expiry.stop().then(() => vault.close()), sleep(CLOSE_TIMEOUT_MS)]);
      log.info({}, 'stopped');
      log.end(exit_code);
    },
    () => void opening.then((front) => front.restart()),
  );
  const front = await opening;
  if (certificate !== undefined) keepFresh(certificate, front, log);
  const { url, metrics } = front;
  if (config.OPS_PORT !== 0) {
    ops = await openOpsListener({
      ...{ config, url, metrics, vault, keys, sizes, license, certificate, log },
      pages: apiPages(config, url),
    });
  }
  const key = firstKey(config, process.stdout.isTTY === true);
  const first = await createFirstClient(vault, config.CLIENT_PREFIX, key.take);
  if (first !== undefined) announce({ first, url, ops_url: ops?.url, certificate }, key.file, log);
  tellListening(log, config, vault, url, ops?.url);
  remindOf(license, log);
}

/** A front on its way may have answered already; one that does not come about has not. */
async function stopAnswering(opening: Promise<Front>, delay_ms: number): Promise<void> {
  const front = await Promise.race([opening.catch(() => undefined), sleep(OPEN_TIMEOUT_MS)]);
  await front?.stop(delay_ms);
}

/** What the process knows beside its requests, read at each scrape. */
function gaugesOf(
  expiry: Expiry,
  keys: KeyRenewal,
  sizes: VaultSizes,
  license: License,
  certificate: Certificate | undefined,
  config: Config,
): Gauges {
  return {
    expiredRecords: () => expiry.removed,
    vaultRows: async () => (await sizes.read()).records,
    keyringAge: () => (monotonicMs() - keys.latest.as_of_ms) / 1000,
    licenseDaysLeft: config.license && (() => license.daysLeft() ?? 0),
    certificateExpires: certificate && (() => certificate.expires_at),
  };
}

function tellListening(
  log: Log,
  { DATABASE_URL, WORKERS }: Config,
  { schema_changes }: Vault,
  url: string,
  ops_url: string | undefined,
): void {
  log.info(
    {
      url,
      ops_url,
      workers: WORKERS === 1 ? undefined : WORKERS,
      database: DATABASE_URL === undefined ? 'embedded' : 'postgres',
      migrations: schema_changes.applied,
      distributed: schema_changes.distributed,
    },
    'listening',
  );
}

/** One process: it answers itself, and hands nothing to others. */
async function openAlone({ gauges, certificate, ...parts }: Parts): Promise<Front> {
  const metrics = createMetrics();
  metrics.observe(gauges);
  const listener = await PublicListener.open({ ...parts, tls: certificate?.pem, metrics });
  return {
    url: listener.url,
    metrics,
    stop: (delay_ms) => listener.drain(delay_ms),
    restart: () => {
      listener.lookAtAudit();
      parts.log.info({}, 'nothing to restart one by one: WORKERS is 1');
    },
    renew: (tls) => listener.renew(tls),
  };
}

async function openWorkers({ certificate, ...parts }: Parts): Promise<Front> {
  const workers = await Workers.start({ ...parts, tls: certificate?.pem });
  return {
    url: workers.url,
    metrics: workers.metrics,
    stop: (delay_ms) => workers.stop(delay_ms),
    restart: () => void workers.roll(),
    renew: (pem) => workers.renew(pem),
  };
}

/** What goes wrong with them is logged once, and again when it is well. */
function renewedKeys(vault: Vault, config: Config, log: Log): KeyRenewal {
  const store = new KeyringStore(vault.vital.keys);
  return new KeyRenewal(store, kekSourceOf(config.vault), vault.plain_keys, (problem) => {
    if (problem === undefined) return log.info({}, 'the keyring can be read again');
    const problems = operatorError(problem)?.problems;
    const code = errorCode(problem) ?? errorCode((problem as Error).cause);
    log.warn({ problems, code }, 'the keyring cannot be renewed: this process keeps its keys');
  });
}

function remindOf(license: License, log: Log): void {
  remind(
    log,
    () => license.warning(),
    () => ({ days_left: license.daysLeft() }),
  );
}

/** Puts new files in use, without a restart. */
function keepFresh(certificate: Certificate, front: Front, log: Log): void {
  remind(
    log,
    () => certificate.warning(),
    () => ({ expires_at: certificate.expires_at }),
  );
  certificate.watch({
    onRenewed(pem) {
      front.renew(pem);
      log.info({ expires_at: certificate.expires_at }, 'TLS certificate renewed');
    },
    onProblem: (problem) => log.error({ problem }, 'TLS certificate not renewed'),
  });
}

/** Says what is wrong when that changes, and again every day. @param look undefined: all is well */
function remind(
  log: Log,
  look: () => string | undefined,
  fields: () => Record<string, unknown>,
): void {
  let last: string | undefined;
  let last_at_ms = -Infinity;
  const warn = () => {
    const warning = look();
    const now_ms = performance.now();
    if (warning === last && now_ms - last_at_ms < REMINDER_INTERVAL_MS) return;
    last = warning;
    last_at_ms = now_ms;
    if (warning !== undefined) log.warn(fields(), warning);
  };
  warn();
  setInterval(warn, REMINDER_LOOK_MS).unref();
}
